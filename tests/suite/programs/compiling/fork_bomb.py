#: language forge
#: expect compilation_error
#: says timed out
#: tags processes
import os

while True:
    try:
        os.fork()
    except OSError:
        pass
