# Deeper than any path is long.
#: language forge
#: expect compilation_error
#: tags disk
import os

while True:
    os.mkdir("deep")
    os.chdir("deep")
