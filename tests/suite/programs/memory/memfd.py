# Files without a name.
#: expect memory_exceeded
#: memory_mb 32
#: timeout_ms 10000
import os

for _ in range(60):
    file = os.memfd_create("hidden")
    os.write(file, b"x" * (4 << 20))
print("hidden")
