# Makes and opens devices.
#: prints refused
#: stages run compile
import os
import stat

HARMLESS = {
    "null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm", "mqueue", "fd", "stdin", "stdout", "stderr",
    "core", "console",
}
for name in set(os.listdir("/dev")) - HARMLESS:
    print("there is", name)
for kind, major, minor in ((stat.S_IFBLK, 254, 0), (stat.S_IFBLK, 8, 0), (stat.S_IFCHR, 1, 1), (stat.S_IFCHR, 1, 3)):
    for folder in ("/tmp", "/dev/shm", "/dev", "/workspace"):
        try:
            os.mknod(f"{folder}/device", kind | 0o666, os.makedev(major, minor))
            print("made", folder, major, minor)
        except OSError:
            pass
for name in ("mem", "kmem", "port", "kmsg", "sda", "vda", "kvm", "fuse", "loop0", "net/tun", "vsock", "userfaultfd", "tty0"):
    try:
        open("/dev/" + name, "rb").close()
        print("opened", name)
    except OSError:
        pass
print("refused")
