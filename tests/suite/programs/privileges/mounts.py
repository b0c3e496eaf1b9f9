# Mounts, new roots and everything around them.
#: prints refused
#: stages run compile
import ctypes
import os

libc = ctypes.CDLL(None, use_errno=True)
attempts = {
    "mount a tmpfs": lambda: libc.mount(b"none", b"/tmp", b"tmpfs", 0, None),
    "mount proc": lambda: libc.mount(b"proc", b"/proc", b"proc", 0, None),
    "mount cgroup": lambda: libc.mount(b"none", b"/tmp", b"cgroup2", 0, None),
    "bind": lambda: libc.mount(b"/", b"/tmp", None, 4096, None),
    "make it writable": lambda: libc.mount(None, b"/", None, 32 | 4096, None),
    "make the workspace writable": lambda: libc.mount(None, b"/workspace", None, 32 | 4096, None),
    "share": lambda: libc.mount(None, b"/", None, 1 << 20, None),
    "unmount": lambda: libc.umount2(b"/workspace", 2),
    "unmount the root": lambda: libc.umount2(b"/", 2),
    "unmount proc": lambda: libc.umount2(b"/proc", 2),
    "chroot": lambda: libc.chroot(b"/tmp"),
    "pivot": lambda: libc.syscall(155, b"/tmp", b"/tmp"),
    "fsopen": lambda: libc.syscall(430, b"tmpfs", 0),
    "open_tree": lambda: libc.syscall(428, -100, b"/", 1),
    "mount_setattr": lambda: libc.syscall(442, -100, b"/", 0, None, 0),
}
for name, attempt in attempts.items():
    if attempt() != -1:
        print("could", name)
print("refused")
