# More than it may have, at once.
#: expect memory_exceeded
#: memory_mb 64
x = bytearray(400 << 20)
