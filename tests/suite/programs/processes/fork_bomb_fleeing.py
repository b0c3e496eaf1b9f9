# The parents die, the children go on: whoever lists and then kills comes too late.
#: expect timeout passed
#: timeout_ms 700
import os

while True:
    try:
        if os.fork() > 0:
            os._exit(0)
    except OSError:
        pass
