# Devices cannot be made, nor found to be linked.
#: language forge
#: prints refused
import os
import stat

said = "refused"
for kind in (stat.S_IFBLK, stat.S_IFCHR):
    try:
        os.mknod("device", kind | 0o666, os.makedev(1, 3))
        said = "made"
    except OSError:
        pass
try:
    os.link("/dev/null", "null")
    said = "linked"
except OSError:
    pass
open("program", "w").write(f"#!/bin/bash\necho {said}\n")
os.chmod("program", 0o755)
