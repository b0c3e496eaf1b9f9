# Empty files take room, too.
#: prints bounded
#: timeout_ms 10000
#: memory_mb 128
import os

for folder in ("/tmp", "/dev/shm"):
    count = 0
    try:
        while count < 100_000:
            os.close(os.open(f"{folder}/{count}", os.O_CREAT | os.O_WRONLY))
            count += 1
    except OSError:
        pass
    if not 10_000 <= count <= 16_384:
        print(folder, count)
print("bounded")
