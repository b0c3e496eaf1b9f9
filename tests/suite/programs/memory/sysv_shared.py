# System V shared memory belongs to nobody's address space until it is attached.
#: expect memory_exceeded
#: memory_mb 32
#: timeout_ms 10000
import ctypes

libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
for _ in range(16):
    segment = libc.shmget(0, 8 << 20, 0o1600)
    if segment == -1:
        raise OSError(ctypes.get_errno(), "shmget")
    address = libc.shmat(segment, None, 0)
    ctypes.memset(address, 1, 8 << 20)
    libc.shmdt(ctypes.c_void_p(address))
print("hidden")
