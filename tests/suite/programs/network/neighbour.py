# Two at the same time take the same abstract name: if they share it, the second fails or meets the first.
#: prints alone
#: tests 4
#: timeout_ms 5000
import os
import socket
import time

with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as own:
    own.bind("\0tribunal-suite-neighbour")
    own.listen()
    own.settimeout(0.1)
    time.sleep(0.3)
    try:
        own.accept()
        print("somebody came")
    except TimeoutError:
        print("alone")
