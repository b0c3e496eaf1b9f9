# Every process forks for ever.
#: expect timeout
#: timeout_ms 700
import os

while True:
    try:
        os.fork()
    except OSError:
        pass
