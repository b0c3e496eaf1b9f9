# The compiler may replace the source; that is its own business, and nobody else's file.
#: language forge
#: prints ran
import os

os.remove("forge.py")
os.symlink("@CANARIES@/file", "forge.py")
open("program", "w").write("#!/bin/bash\necho ran\n")
os.chmod("program", 0o755)
