# Prints what a guest finds in its sandbox, as one line of JSON. The line in front of this file sets WHAT, and for the
# network TARGET.
import ctypes
import errno
import json
import os
import resource
import shutil
import socket
import stat
import subprocess


def failure(action, *arguments):
    """The name of the error that an action ends with, or None if it succeeds."""
    try:
        action(*arguments)
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))
    return None


def files():
    """What can be written to, apart from devices, and how an attempt to do so ends."""

    def everything():
        for top, folders, names in os.walk("/"):
            if top == "/":
                folders.remove("proc")
            yield top
            yield from (os.path.join(top, name) for name in names)

    def is_file_or_folder(path):
        mode = os.lstat(path).st_mode
        return not stat.S_ISCHR(mode) and not stat.S_ISLNK(mode)

    folders = ["/", "/etc", "/usr/bin", "/var/tmp", "/run/lock", "/workspace", "/tmp", "/dev/shm"]
    return {
        "writable": sorted(path for path in everything() if os.access(path, os.W_OK) and is_file_or_folder(path)),
        "attempts": {folder: failure(open, folder + "/attempt", "w") for folder in folders},
    }


def scratch(folder):
    """How many MiB and how many files fit into a folder, and whether a program can be started from it."""
    chunk, big = b"x" * (1 << 20), folder + "/big"
    with open(big, "wb", buffering=0) as file:
        while not failure(file.write, chunk):
            pass
        room = file.tell() >> 20
    os.remove(big)
    count = 0
    while not failure(os.mkdir, f"{folder}/{count}"):
        count += 1
    for number in range(count):
        os.rmdir(f"{folder}/{number}")
    shutil.copy("/bin/true", folder)
    return {"mib": room, "files": count, "start": failure(subprocess.run, [folder + "/true"])}


def network():
    def connect():
        with socket.create_connection(tuple(TARGET), timeout=5):
            pass

    return {
        "interfaces": [line.split(":")[0].strip() for line in open("/proc/net/dev").read().splitlines()[2:]],
        "routes": open("/proc/net/route").read().splitlines()[1:],
        "unix_sockets": open("/proc/net/unix").read().splitlines()[1:],
        "reached": failure(connect) is None,
    }


def privileges():
    def checked(function):
        def call(*arguments):
            if function(*arguments) == -1:
                raise OSError(ctypes.get_errno(), "failed")

        return call

    libc = ctypes.CDLL(None, use_errno=True)
    new_user_namespace, new_mount_namespace, attach = 0x10000000, 0x00020000, 16
    forbidden = {
        "become root": (os.setuid, 0),
        "join a group": (os.setgroups, [0]),
        "make a device": (os.mknod, "/tmp/device", stat.S_IFBLK | 0o666, os.makedev(254, 0)),
        "change the root": (os.chroot, "/tmp"),
        "mount": (checked(libc.mount), b"none", b"/tmp", b"tmpfs", 0, None),
        "make a user namespace": (checked(libc.unshare), new_user_namespace),
        "make a mount namespace": (checked(libc.unshare), new_mount_namespace),
        "trace process 1": (checked(libc.ptrace), attach, 1, 0, 0),
        "read process 1": (open, "/proc/1/mem", "rb"),
        "read the kernel's memory": (open, "/proc/kcore", "rb"),
        "set the name of the host": (socket.sethostname, "mine"),
        "read all packets": (socket.socket, socket.AF_PACKET, socket.SOCK_RAW),
        "raise a limit": (resource.setrlimit, resource.RLIMIT_NOFILE, (1 << 20, 1 << 20)),
        "raise a priority": (os.nice, -1),
    }

    def allowed(action, *arguments):
        try:
            return failure(action, *arguments) is None
        except ValueError:  # as setrlimit says it
            return False

    fields = (line.split(":", 1) for line in open("/proc/self/status"))
    return {
        "status": {name: value.split() for name, value in fields},
        "allowed": [name for name, attempt in forbidden.items() if allowed(*attempt)],
    }


def limits():
    opened = []
    while not failure(lambda: opened.append(open("/dev/null"))):
        pass
    return {
        "core": resource.getrlimit(resource.RLIMIT_CORE),
        "opened": len(opened),
    }


def swap():
    def number(path):
        return int(open("/sys/fs/cgroup/" + path).read())

    if os.path.exists("/sys/fs/cgroup/cgroup.controllers"):
        return {"bytes": number("memory.swap.max")}
    return {"bytes": number("memory/memory.memsw.limit_in_bytes") - number("memory/memory.limit_in_bytes")}


FACTS = {
    "files": files,
    "scratch": lambda: {folder: scratch(folder) for folder in ("/tmp", "/dev/shm")},
    "network": network,
    "privileges": privileges,
    "limits": limits,
    "swap": swap,
    "environment": lambda: dict(os.environ),
    "processes": lambda: sorted(int(name) for name in os.listdir("/proc") if name.isdigit()),
}
print(json.dumps(FACTS[WHAT]()))
