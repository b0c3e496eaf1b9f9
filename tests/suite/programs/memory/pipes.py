# What is written to a pipe and never read.
#: expect memory_exceeded
#: memory_mb 16
#: timeout_ms 10000
import os

chunk = b"x" * 4096
for _ in range(500):
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    try:
        while True:
            os.write(writer, chunk)
    except BlockingIOError:
        pass
print("hidden")
