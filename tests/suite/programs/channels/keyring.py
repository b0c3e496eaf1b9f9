# Keys outlive processes.
#: tests 3
#: prints refused
import ctypes

libc = ctypes.CDLL(None, use_errno=True)
ADD_KEY, REQUEST_KEY, KEYCTL = 248, 249, 250
RINGS = (-1, -2, -3, -4, -5)
for ring in RINGS:
    if libc.syscall(ADD_KEY, b"user", b"mark", b"x", 1, ring) != -1:
        print("kept a key in", ring)
if libc.syscall(REQUEST_KEY, b"user", b"mark", None, 0) != -1:
    print("found a key")
if libc.syscall(KEYCTL, 0, -4, 1) != -1:
    print("found a ring")
print("refused")
