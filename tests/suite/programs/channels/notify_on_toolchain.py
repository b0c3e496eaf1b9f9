# Watches what everybody reads.
#: tests 4
#: prints nothing seen
#: timeout_ms 5000
import ctypes
import os
import sys
import time

libc = ctypes.CDLL(None, use_errno=True)
watch = libc.inotify_init1(os.O_NONBLOCK)
folders = {os.path.dirname(os.path.realpath(sys.executable)), "/etc", "/bin", "/lib"}
if watch != -1:
    for folder in folders:
        libc.inotify_add_watch(watch, folder.encode(), 0xFFF)
    time.sleep(0.4)
    try:
        seen = os.read(watch, 65536)
    except OSError:
        seen = b""
else:
    seen = b""
print("seen something" if seen else "nothing seen")
