#: language forge
#: expect compilation_error
#: says timed out
import time

time.sleep(600)
