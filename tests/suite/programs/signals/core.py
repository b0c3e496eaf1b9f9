# Dies with a core dump, which nobody keeps.
#: prints no core
import glob
import os
import resource

os.chdir("/tmp")
child = os.fork()
if child == 0:
    limit = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (limit, limit))
    os.abort()
status = os.waitpid(child, 0)[1]
print("core" if os.WCOREDUMP(status) or glob.glob("/tmp/*core*") else "no core")
