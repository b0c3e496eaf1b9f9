# A tenth of a processor is a tenth, also for many.
#: expect timeout
#: timeout_ms 1000
#: cpus 0.1
#: tags cpu
import os

for _ in range(8):
    if os.fork() == 0:
        break
while True:
    pass
