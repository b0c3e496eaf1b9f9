# A daemon goes on writing when its parent has said all.
#: expect output_exceeded passed wrong_answer
import os
import time

if os.fork() == 0:
    os.setsid()
    time.sleep(0.05)
    while True:
        os.write(1, b"x" * 4096)
os._exit(0)
