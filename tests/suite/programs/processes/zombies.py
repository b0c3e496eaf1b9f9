# Nobody waits for the dead, who count as processes too.
#: prints bounded
#: timeout_ms 5000
import os

count = 1
try:
    while count < 1000:
        if os.fork() == 0:
            os._exit(0)
        count += 1
except BlockingIOError:
    pass
print("bounded" if count == 64 else count)
