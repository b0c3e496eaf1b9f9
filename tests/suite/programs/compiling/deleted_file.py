# A file without a name takes room all the same.
#: language forge
#: expect compilation_error
#: tags disk
import os
import time

file = open("hidden", "wb", buffering=0)
os.remove("hidden")
for _ in range(200):
    file.write(b"x" * (4 << 20))
time.sleep(600)
