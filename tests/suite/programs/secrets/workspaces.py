# Looks for other submissions: beside its own and in the worker's folder.
#: prints nothing
#: stages run compile
import os

FOLDERS = ("@CANARIES@", "@CANARIES@/..", "@CANARIES@/../work", "/var/tmp/tribunal", "/var/lib/docker", "/var/lib/tribunal")
for folder in FOLDERS:
    try:
        print(folder, os.listdir(folder))
    except OSError:
        pass
own = {"solution.py", "lookout.py", "found"}
print(*set(os.listdir("/workspace")) - own, *set(os.listdir("/workspace/..")) & {"work", "workspaces"}, "nothing")
