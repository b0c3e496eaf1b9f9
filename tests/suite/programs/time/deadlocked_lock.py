# Waits for a lock that a stopped child holds.
#: expect timeout
#: timeout_ms 500
import fcntl
import os
import signal

name = "/tmp/lock"
ready, told = os.pipe()
if os.fork() == 0:
    held = open(name, "w")
    fcntl.flock(held, fcntl.LOCK_EX)
    os.write(told, b"x")
    os.kill(os.getpid(), signal.SIGSTOP)
os.read(ready, 1)
fcntl.flock(open(name, "w"), fcntl.LOCK_EX)
