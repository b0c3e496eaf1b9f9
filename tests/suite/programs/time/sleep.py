#: expect timeout
#: timeout_ms 500
import time
time.sleep(600)
