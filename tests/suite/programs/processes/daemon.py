# Forked twice, in a session of its own, deaf to every signal, with nothing of its parent's left open.
#: prints done
import os
import signal
import time

if os.fork() == 0:
    os.setsid()
    if os.fork() > 0:
        os._exit(0)
    for number in range(1, 65):
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            pass
    for descriptor in range(3):
        os.close(descriptor)
    time.sleep(60)
    os._exit(0)
print("done")
