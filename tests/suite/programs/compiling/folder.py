#: language forge
#: expect runtime_error
#: says could not be started
import os

os.mkdir("program", 0o777)
