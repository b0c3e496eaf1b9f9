# The compiler shuts the workspace itself, if it can.
#: language forge
#: expect passed runtime_error
#: prints done
import os

open("program", "w").write("#!/bin/bash\necho done\n")
os.chmod("program", 0o755)
try:
    os.chmod(".", 0)
except OSError:
    pass
