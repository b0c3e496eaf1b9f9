# Adds a filter that allows everything, and asks again.
#: prints refused
import ctypes
import struct

libc = ctypes.CDLL(None, use_errno=True)
allow = struct.pack("HBBI", 0x06, 0, 0, 0x7FFF0000)
program = ctypes.create_string_buffer(allow)
header = struct.pack("HxxxxxxP", 1, ctypes.addressof(program))
libc.prctl(22, 2, header, 0, 0)
print("refused" if libc.syscall(272, 0x10000000) == -1 else "a namespace")
