# Asks the first process to end: that ends the asker, or nobody.
#: expect runtime_error passed
#: prints alive
import os
import signal
import time

try:
    os.kill(1, signal.SIGTERM)
except OSError:
    pass
time.sleep(0.2)
print("alive")
