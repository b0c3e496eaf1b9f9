# Asks the OOM killer to look elsewhere, and sends a child ahead.
#: expect memory_exceeded
#: memory_mb 64
#: timeout_ms 10000
import os
import time

for score in ("-1000", "0", "1"):
    try:
        open("/proc/self/oom_score_adj", "w").write(score)
    except OSError:
        pass
if os.fork() == 0:
    time.sleep(60)
x = b"x" * (200 << 20)
