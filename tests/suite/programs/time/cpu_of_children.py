# Each is below the limit on its own.
#: expect timeout
#: timeout_ms 900
#: cpus 2
#: tags cpu
import os
import time

for _ in range(3):
    if os.fork() == 0:
        end = time.process_time() + 0.4
        while time.process_time() < end:
            pass
        os._exit(0)
for _ in range(3):
    os.wait()
