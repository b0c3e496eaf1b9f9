# Looks for every place that can be written to.
#: prints searched
#: timeout_ms 20000
import os
import stat

SCRATCH = ("/tmp", "/dev/shm", "/dev/mqueue")


def everything():
    for top, folders, names in os.walk("/"):
        if top == "/" and "proc" in folders:
            folders.remove("proc")
        yield top
        yield from (os.path.join(top, name) for name in names)


for path in everything():
    try:
        mode = os.lstat(path).st_mode
        if not stat.S_ISCHR(mode) and not stat.S_ISLNK(mode) and os.access(path, os.W_OK) and path not in SCRATCH:
            print(path)
    except OSError:
        pass
print("searched")
