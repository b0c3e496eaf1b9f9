# Every process leads a session of its own, out of reach of signals to a group.
#: expect timeout
#: timeout_ms 700
import os

while True:
    try:
        if os.fork() == 0:
            os.setsid()
    except OSError:
        pass
