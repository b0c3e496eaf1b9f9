# Everybody in the group is stopped, by one who is not in it.
#: expect timeout
#: timeout_ms 500
import os
import signal
import time

if os.fork() == 0:
    group = os.getppid()
    os.setsid()
    time.sleep(0.05)
    os.kill(group, signal.SIGSTOP)
    os._exit(0)
time.sleep(600)
