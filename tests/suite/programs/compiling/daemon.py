# Leaves a daemon that would change the program after it was accepted.
#: language forge
#: prints first
#: tests 2
import os
import time

open("program", "w").write("#!/bin/bash\nsleep 0.3\necho first\n")
os.chmod("program", 0o777)
if os.fork() == 0:
    os.setsid()
    for descriptor in range(3):
        os.close(descriptor)
    time.sleep(0.2)
    while True:
        open("program", "w").write("#!/bin/bash\necho second\n")
