# More than it may have, page by page.
#: expect memory_exceeded
#: memory_mb 32
#: timeout_ms 10000
import mmap

pages = mmap.mmap(-1, 256 << 20)
for at in range(0, 256 << 20, 4096):
    pages[at] = 1
