# A compiler that crashes leaves no core in the workspace.
#: language forge
#: prints forge.py
#: prints program
import os
import resource

child = os.fork()
if child == 0:
    limit = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (limit, limit))
    os.abort()
os.waitpid(child, 0)
open("program", "w").write("#!/bin/bash\nls\n")
os.chmod("program", 0o755)
