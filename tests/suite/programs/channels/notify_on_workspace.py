# Watches its own source, which the other tests read.
#: tests 4
#: prints nothing seen
#: timeout_ms 5000
import ctypes
import os
import time

libc = ctypes.CDLL(None, use_errno=True)
watch = libc.inotify_init1(os.O_NONBLOCK)
seen = b""
if watch != -1:
    for path in (b"/workspace", b"/workspace/solution.py"):
        libc.inotify_add_watch(watch, path, 0xFFF)
    time.sleep(0.4)
    try:
        seen = os.read(watch, 65536)
    except OSError:
        pass
print("seen something" if seen else "nothing seen")
