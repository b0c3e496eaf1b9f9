#: expect timeout
#: timeout_ms 500
import os
os.read(os.pipe()[0], 1)
