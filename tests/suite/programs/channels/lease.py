# A lease on a file tells when somebody else opens it.
#: tests 4
#: prints undisturbed
#: timeout_ms 5000
import fcntl
import signal
import sys
import time

broken = []
signal.signal(signal.SIGIO, lambda *_: broken.append(True))
for path in (sys.executable, "/workspace/solution.py"):
    try:
        file = open(path, "rb")
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError:
        pass
time.sleep(0.2)
print("disturbed" if broken else "undisturbed")
