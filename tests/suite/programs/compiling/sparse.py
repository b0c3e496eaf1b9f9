# A large file with nothing in it takes no room, and nobody reads it.
#: language forge
#: prints ran
import os

os.truncate(os.open("sparse", os.O_CREAT | os.O_RDWR), 60 << 20)
open("program", "w").write("#!/bin/bash\necho ran\n")
os.chmod("program", 0o755)
