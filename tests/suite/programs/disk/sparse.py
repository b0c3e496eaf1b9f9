# A file of a terabyte, without a byte in it.
#: prints refused
import os
import signal

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
try:
    os.truncate(os.open("/tmp/sparse", os.O_CREAT | os.O_RDWR), 1 << 40)
    print("made")
except OSError:
    print("refused")
