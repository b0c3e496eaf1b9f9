#: language forge
#: expect runtime_error
#: says could not be started
import os
import socket

socket.socket(socket.AF_UNIX).bind("program")
os.chmod("program", 0o777)
