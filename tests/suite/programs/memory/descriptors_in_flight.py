# Sockets sent through sockets, and then forgotten: there is a limit, or the kernel collects them as fast as they come.
#: prints bounded
#: timeout_ms 10000
#: memory_mb 64
import array
import socket

sent = 0
try:
    while sent < 100_000:
        one, other = socket.socketpair()
        rights = array.array("i", [one.fileno()] * 50)
        other.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
        sent += 50
        one.close()
        other.close()
except OSError:
    pass
print("bounded")
