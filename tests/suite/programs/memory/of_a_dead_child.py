# A child is killed for its memory, and the parent acts as if nothing had happened.
#: expect memory_exceeded
#: memory_mb 64
#: timeout_ms 10000
#: prints fine
import os

child = os.fork()
if child == 0:
    x = b"x" * (200 << 20)
    os._exit(0)
os.waitpid(child, 0)
print("fine")
