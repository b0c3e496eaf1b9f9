# Reads the memory of every process but its own.
#: prints nothing
import os

for name in os.listdir("/proc"):
    if not name.isdigit() or int(name) == os.getpid():
        continue
    for file in ("maps", "mem", "environ", "auxv", "stack", "pagemap"):
        try:
            if open(f"/proc/{name}/{file}", "rb").read(8):
                print(name, file)
        except OSError:
            pass
print("nothing")
