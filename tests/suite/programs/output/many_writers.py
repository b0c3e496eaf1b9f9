# Thirty children at once.
#: expect output_exceeded
import os

for _ in range(30):
    if os.fork() == 0:
        break
while True:
    os.write(1, b"x" * 65536)
