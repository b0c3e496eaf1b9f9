# Sockets of every family and kind. Only those between processes of the same run are allowed.
#: prints unix
#: stages run compile
import socket

for family in range(0, 64):
    if family == socket.AF_UNIX:
        continue
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET):
        try:
            socket.socket(family, kind)
            print("got", family, kind)
        except OSError:
            pass
one, other = socket.socketpair()
one.send(b"unix")
print(other.recv(9).decode())
