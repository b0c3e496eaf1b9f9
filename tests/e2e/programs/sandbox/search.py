# Looks everywhere for what starts like the word in its input, and prints where it was found.
import os

NEEDLE = input().encode()


def places():
    # The image is the same for all; everything else is mounted on it.
    mounts = (line.split()[1] for line in open("/proc/self/mounts"))
    for mount in sorted({"/run", "/var/tmp", *mounts} - {"/", "/sys"}):
        if os.path.isfile(mount):
            yield mount
        for top, _, names in os.walk(mount):
            yield from (os.path.join(top, name) for name in names)


def content(path):
    # Devices and pipes never end; regular files, also those of the kernel, do.
    if not os.path.isfile(path) or path.endswith(("/mem", "/kmsg", "/pagemap", "/clear_refs")):
        return b""
    with open(path, "rb") as file:
        return file.read(16 << 20)


# Our own memory and our own standard input hold it, of course: they are not files.
for path in places():
    try:
        if NEEDLE in content(path):
            print(path)
    except OSError:
        pass
print("searched")
