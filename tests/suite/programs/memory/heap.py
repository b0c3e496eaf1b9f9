#: expect memory_exceeded
x = bytearray(400 << 20)
