# A program that would run as its compiler's user, if the file system let it.
#: language forge
#: prints same
import os
import shutil

shutil.copy("/usr/bin/id", "id")
os.chmod("id", 0o6777)
open("program", "w").write('#!/bin/bash\n[[ $(./id -u) == $(./id -ru) && $(./id -g) == $(./id -rg) ]] && echo same\n')
os.chmod("program", 0o755)
