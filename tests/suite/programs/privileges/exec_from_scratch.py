# Starts a program from where it could write it.
#: prints refused
#: stages run compile
import mmap
import os
import shutil
import subprocess

for folder in ("/tmp", "/dev/shm"):
    path = folder + "/true"
    shutil.copy("/bin/true", path)
    os.chmod(path, 0o777)
    try:
        subprocess.run([path])
        print("started from", folder)
    except OSError:
        pass
    try:
        mmap.mmap(os.open(path, os.O_RDONLY), 4096, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_EXEC)
        print("mapped from", folder)
    except OSError:
        pass
print("refused")
