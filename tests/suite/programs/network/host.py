# Knocks at the host's doors: a port, an abstract socket and one with a name.
#: prints nobody answers
#: stages run compile
import socket

ADDRESSES = (
    (socket.AF_INET, ("127.0.0.1", @PORT@)),
    (socket.AF_INET6, ("::ffff:127.0.0.1", @PORT@)),
    (socket.AF_UNIX, "\0@ABSTRACT@"),
    (socket.AF_UNIX, "@SOCKET@"),
    (socket.AF_UNIX, "/proc/1/root@SOCKET@"),
    (socket.AF_UNIX, "/var/run/docker.sock"),
    (socket.AF_UNIX, "/run/containerd/containerd.sock"),
    (socket.AF_UNIX, "/run/dbus/system_bus_socket"),
    (socket.AF_UNIX, "/dev/log"),
)
for family, address in ADDRESSES:
    try:
        with socket.socket(family) as own:
            own.settimeout(1)
            own.connect(address)
        print("reached", address)
    except OSError:
        pass
print("nobody answers")
