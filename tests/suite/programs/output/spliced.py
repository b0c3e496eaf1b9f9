# Without a copy through the program.
#: expect output_exceeded
import os

zero = os.open("/dev/zero", os.O_RDONLY)
while True:
    os.sendfile(1, zero, None, 1 << 20)
