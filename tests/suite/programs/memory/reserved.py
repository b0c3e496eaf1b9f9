# Address space is not memory: many runtimes reserve much of it.
#: prints reserved
#: memory_mb 32
import mmap

pages = mmap.mmap(-1, 64 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000)
pages[0] = 1
print("reserved")
