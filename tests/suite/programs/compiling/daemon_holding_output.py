#: language forge
#: prints ran
import os
import time

open("program", "w").write("#!/bin/bash\necho ran\n")
os.chmod("program", 0o777)
if os.fork() == 0:
    os.setsid()
    time.sleep(600)
