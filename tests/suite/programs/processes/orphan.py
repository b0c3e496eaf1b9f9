# A child outlives its parent.
#: prints done
import os
import time

if os.fork() == 0:
    time.sleep(60)
    os._exit(0)
print("done")
