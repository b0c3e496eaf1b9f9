# Kills its parent and the first process with everything but a request to end.
#: prints alive
import os
import signal

assert os.getppid() > 0
for process in (os.getppid(), 1):
    for number in set(range(1, 65)) - {signal.SIGTERM}:
        try:
            os.kill(process, number)
        except OSError:
            pass
print("alive")
