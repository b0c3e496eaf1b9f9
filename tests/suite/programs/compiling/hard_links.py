# Nothing from outside of the workspace can be linked into it.
#: language forge
#: prints refused
import os

said = "refused"
for path in ("/etc/passwd", "/bin/true", "/usr/bin/env", "@CANARIES@/file", "@SECRET@", "/proc/1/exe", "/proc/self/exe", "/tmp"):
    try:
        os.link(path, "linked" + str(len(path)))
        said = "linked"
    except OSError:
        pass
try:
    os.link("forge.py", "other name of the source")
except OSError:
    pass  # the kernel may be set to allow this only to the owner
open("program", "w").write(f"#!/bin/bash\necho {said}\n")
os.chmod("program", 0o755)
