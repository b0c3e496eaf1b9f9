# Opens until it may not.
#: prints bounded
import os

opened = 0
try:
    while opened < 100_000:
        os.open("/dev/null", os.O_RDONLY)
        opened += 1
except OSError:
    pass
print("bounded" if opened <= 1024 else opened)
