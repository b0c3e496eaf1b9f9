# Kills what has the worker's number.
#: prints refused
import os
import signal

try:
    os.kill(@WORKER@, signal.SIGKILL)
    print("killed")
except OSError:
    print("refused")
