# Each has little, together they have too much.
#: expect memory_exceeded
#: memory_mb 64
#: timeout_ms 10000
import os
import time

for _ in range(16):
    if os.fork() == 0:
        share = b"x" * (12 << 20)
        time.sleep(60)
time.sleep(60)
