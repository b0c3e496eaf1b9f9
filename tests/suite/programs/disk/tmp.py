# /tmp is as large as promised.
#: prints 64
#: memory_mb 256
#: timeout_ms 5000
written = 0
try:
    with open("/tmp/big", "wb", buffering=0) as file:
        while written < 1000:
            if file.write(b"x" * (1 << 20)) < 1 << 20:
                break
            written += 1
except OSError:
    pass
print(written)
