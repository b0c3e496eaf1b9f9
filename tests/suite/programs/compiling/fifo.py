# Whoever opens it waits for ever.
#: language forge
#: expect runtime_error
#: says could not be started
import os

os.mkfifo("program", 0o777)
os.chmod("program", 0o777)
