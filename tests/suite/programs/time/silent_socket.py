#: expect timeout
#: timeout_ms 500
import socket
one, other = socket.socketpair()
one.recv(1)
