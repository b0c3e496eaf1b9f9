# Reads more files than it has memory. The kernel may keep them or forget them: that is not the program's.
#: prints read
#: memory_mb 32
#: timeout_ms 30000
#: tags innocent
import os

left = 300 << 20
for top, _, names in os.walk("/usr"):
    for name in names:
        path = os.path.join(top, name)
        if left <= 0 or os.path.islink(path):
            continue
        try:
            with open(path, "rb", buffering=0) as file:
                while chunk := file.read(1 << 20):
                    left -= len(chunk)
        except OSError:
            pass
print("read")
