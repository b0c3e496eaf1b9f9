# What is in /tmp is in memory.
#: expect memory_exceeded
#: memory_mb 32
#: timeout_ms 10000
with open("/tmp/big", "wb", buffering=0) as file:
    for _ in range(60):
        file.write(b"x" * (1 << 20))
print("hidden")
