# A link is followed where the program runs, and there is nothing at its end.
#: language forge
#: prints nothing
import os

os.symlink("@SECRET@", "secret")
open("program", "w").write("#!/bin/bash\ncat secret 2>/dev/null || echo nothing\n")
os.chmod("program", 0o755)
