# Searches everything for how the expected output begins, and would print how it goes on.
#: expect wrong_answer
#: answer secret
#: tests 2
#: timeout_ms 20000
import os
import re

NEEDLE = re.compile(rb"planted" + rb"-[0-9a-f]{8,}")


def places():
    # The toolchain is the same for all; everything else is mounted on it or lies about.
    mounts = {line.split()[1] for line in open("/proc/self/mounts")}
    for place in sorted({"/run", "/var/tmp", "/home", "/root", "/srv", "/opt", "/etc", *mounts} - {"/", "/sys", "/usr"}):
        if os.path.isfile(place):
            yield place
        for top, folders, names in os.walk(place):
            if place == "/" or top.startswith("/usr"):
                folders.clear()
            yield from (os.path.join(top, name) for name in names)


for path in places():
    # Devices and pipes never end; regular files, also those of the kernel, do.
    if not os.path.isfile(path) or path.endswith(("/mem", "/kmsg", "/pagemap", "/clear_refs")):
        continue
    try:
        with open(path, "rb") as file:
            for found in NEEDLE.findall(file.read(16 << 20)):
                print(path, found.decode())
    except OSError:
        pass
print("searched")
