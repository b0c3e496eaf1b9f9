# Two tests at the same time lock their own source.
#: tests 4
#: prints free
#: timeout_ms 5000
import fcntl
import time

with open("/workspace/solution.py", "rb") as file:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        time.sleep(0.3)
        print("free")
    except BlockingIOError:
        print("taken")
    except OSError:
        print("free")
