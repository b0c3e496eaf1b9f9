# Folders cost the kernel memory, too.
#: prints bounded
#: memory_mb 64
#: timeout_ms 10000
import os

os.chdir("/tmp")
count = 0
try:
    while count < 100_000:
        os.mkdir(str(count))
        count += 1
except OSError:
    pass
print("bounded" if 10_000 <= count <= 16_384 else count)
