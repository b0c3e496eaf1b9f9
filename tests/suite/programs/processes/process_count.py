# As many processes as promised, not one more.
#: prints 64
#: timeout_ms 5000
import os
import time

count = 1
while True:
    try:
        child = os.fork()
    except BlockingIOError:
        break
    if child == 0:
        time.sleep(60)
        os._exit(0)
    count += 1
print(count)
