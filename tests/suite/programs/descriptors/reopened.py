# The streams cannot be turned round: what is on their other end is ours.
#: prints done
import os

for descriptor, flags in ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_RDONLY)):
    for path in (f"/proc/self/fd/{descriptor}", f"/dev/fd/{descriptor}", f"/proc/1/fd/{descriptor}"):
        try:
            own = os.open(path, flags | os.O_NONBLOCK)
            os.read(own, 1) if flags == os.O_RDONLY else os.write(own, b"x")
        except OSError:
            pass
print("done")
