# The same names for all: shared memory, queues and semaphores.
#: tests 4
#: prints fresh
import ctypes
import os
import time

libc = ctypes.CDLL(None, use_errno=True)
flags = os.O_CREAT | os.O_EXCL | os.O_RDWR
if libc.shm_open(b"/mark", flags, 0o666) == -1:
    print("memory", ctypes.get_errno())
if libc.mq_open(b"/mark", flags, 0o666, None) == -1 and ctypes.get_errno() == 17:
    print("queue")
if libc.sem_open(b"/mark", flags, 0o666, 1) in (0, -1) and ctypes.get_errno() == 17:
    print("semaphore")
time.sleep(0.1)
print("fresh")
