# System V messages wait in the kernel.
#: expect memory_exceeded
#: memory_mb 16
#: timeout_ms 10000
import ctypes

libc = ctypes.CDLL(None, use_errno=True)


class Message(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_long), ("text", ctypes.c_char * 8192)]


message = Message(1, b"x")
for _ in range(4000):
    queue = libc.msgget(0, 0o1600)
    if queue == -1:
        raise OSError(ctypes.get_errno(), "msgget")
    while libc.msgsnd(queue, ctypes.byref(message), 8192, 0o4000) == 0:
        pass
print("hidden")
