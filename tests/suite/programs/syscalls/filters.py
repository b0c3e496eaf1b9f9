# Filters of its own: what the kernel makes of them counts as nobody's memory.
#: prints refused
import ctypes

libc = ctypes.CDLL(None, use_errno=True)
PR_SET_SECCOMP, SYS_SECCOMP = 22, 317


class Step(ctypes.Structure):
    _fields_ = [("code", ctypes.c_ushort), ("jt", ctypes.c_ubyte), ("jf", ctypes.c_ubyte), ("k", ctypes.c_uint)]


class Program(ctypes.Structure):
    _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.POINTER(Step))]


allow = (Step * 1)(Step(0x06, 0, 0, 0x7FFF0000))
program = ctypes.byref(Program(1, allow))
attempts = [
    libc.prctl(PR_SET_SECCOMP, 2, program, 0, 0),
    # The kernel looks at the lower half of the argument only.
    libc.syscall(157, ctypes.c_ulong(PR_SET_SECCOMP | 1 << 32), 2, program, 0, 0),
    libc.syscall(SYS_SECCOMP, 1, 0, program),
]
print("refused" if all(attempt == -1 for attempt in attempts) else attempts)
