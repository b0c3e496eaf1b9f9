# The same keys for all: shared memory, queues and semaphores.
#: tests 4
#: prints fresh
import ctypes
import time

libc = ctypes.CDLL(None, use_errno=True)
EXCLUSIVE = 0o3666
for name, made in (
    ("memory", libc.shmget(4711, 4096, EXCLUSIVE)),
    ("queue", libc.msgget(4711, EXCLUSIVE)),
    ("semaphore", libc.semget(4711, 1, EXCLUSIVE)),
):
    if made == -1:
        print(name, ctypes.get_errno())
time.sleep(0.1)
print("fresh")
