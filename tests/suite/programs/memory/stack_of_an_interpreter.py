# A recursion without end, and without the interpreter's own limit.
#: expect runtime_error memory_exceeded
#: memory_mb 64
#: timeout_ms 10000
import sys

sys.setrecursionlimit(10**9)


def dig(room):
    return dig([room]) + 1


dig(None)
