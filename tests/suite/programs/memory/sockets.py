# What is sent to a socket and never received.
#: expect memory_exceeded
#: memory_mb 16
#: timeout_ms 10000
import socket

kept = []
chunk = b"x" * 65536
for _ in range(500):
    one, other = socket.socketpair()
    kept += [one, other]
    for end in (one, other):
        end.setblocking(False)
        try:
            while True:
                end.send(chunk)
        except BlockingIOError:
            pass
print("hidden")
