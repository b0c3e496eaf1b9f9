# Whoever waits for the end of the output waits for ever.
#: prints answer
#: timeout_ms 10000
import os
import time

if os.fork() == 0:
    os.setsid()
    time.sleep(60)
    os._exit(0)
print("answer", flush=True)
