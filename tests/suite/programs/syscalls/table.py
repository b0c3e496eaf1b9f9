# Calls everything that no program needs, each with arguments that would do no harm, and prints what was not refused.
# The numbers are those of x86_64.
#: prints refused
#: stages run compile
#: timeout_ms 5000
import ctypes
import errno
import os
import signal

NEEDED_BY_NOBODY = dict(
    ptrace=101, syslog=103, uselib=134, ustat=136, sysfs=139, vhangup=153, modify_ldt=154,
    pivot_root=155, _sysctl=156, adjtimex=159, chroot=161, acct=163, settimeofday=164, mount=165, umount2=166,
    swapon=167, swapoff=168, reboot=169, sethostname=170, setdomainname=171, iopl=172, ioperm=173, create_module=174,
    init_module=175, delete_module=176, get_kernel_syms=177, query_module=178, quotactl=179, nfsservctl=180,
    getpmsg=181, putpmsg=182, afs_syscall=183, tuxcall=184, security=185, io_setup=206, io_destroy=207,
    io_getevents=208, io_submit=209, io_cancel=210, lookup_dcookie=212, clock_settime=227, vserver=236,
    kexec_load=246, add_key=248, request_key=249, keyctl=250, ioprio_set=251, ioprio_get=252, migrate_pages=256,
    unshare=272, move_pages=279, perf_event_open=298, fanotify_init=300, fanotify_mark=301, name_to_handle_at=303,
    open_by_handle_at=304, clock_adjtime=305, setns=308, process_vm_readv=310, process_vm_writev=311, kcmp=312,
    finit_module=313, kexec_file_load=320, bpf=321, userfaultfd=323, io_pgetevents=333, io_uring_setup=425,
    io_uring_enter=426, io_uring_register=427, open_tree=428, move_mount=429, fsopen=430, fsconfig=431, fsmount=432,
    fspick=433, pidfd_getfd=438, process_madvise=440, mount_setattr=442, quotactl_fd=443, memfd_secret=447,
    process_mrelease=448, statmount=457, listmount=458, lsm_get_self_attr=459, lsm_set_self_attr=460,
    lsm_list_modules=461, setxattrat=463, getxattrat=464, listxattrat=465, removexattrat=466, open_tree_attr=467,
    file_getattr=468, file_setattr=469,
)
# Allowed with other arguments than these.
NOT_LIKE_THIS = {
    "clone with a new mount namespace": (56, 0x00020000 | signal.SIGCHLD),
    "clone with a new cgroup namespace": (56, 0x02000000 | signal.SIGCHLD),
    "clone with a new uts namespace": (56, 0x04000000 | signal.SIGCHLD),
    "clone with a new ipc namespace": (56, 0x08000000 | signal.SIGCHLD),
    "clone with a new user namespace": (56, 0x10000000 | signal.SIGCHLD),
    "clone with a new pid namespace": (56, 0x20000000 | signal.SIGCHLD),
    "clone with a new network namespace": (56, 0x40000000 | signal.SIGCHLD),
    "clone3": (435, 0, 0),
    "limits of the first process": (302, 1, 7, 0, 0),
    "priority of the first process": (141, 0, 1, 19),
    "scheduler of the first process": (144, 1, 0, b"\0\0\0\0"),
    "parameters of the first process": (142, 1, b"\0\0\0\0"),
    "attributes of the first process": (314, 1, b"\x30" + b"\0" * 47, 0),
    "affinity of the first process": (203, 1, 8, b"\1" + b"\0" * 7),
    "personality of another system": (135, 0x0D),
    "a socket of the internet": (41, 2, 1, 0),
    "a socket of the new internet": (41, 10, 1, 0),
    "a socket to the kernel": (41, 16, 3, 0),
    "a socket to all packets": (41, 17, 3, 0),
    "a socket to the kernel's ciphers": (41, 38, 5, 0),
    "a socket to the host of a machine": (41, 40, 1, 0),
}
libc = ctypes.CDLL(None, use_errno=True)
REFUSED = (errno.EPERM, errno.ENOSYS)


def call(name, number, *arguments):
    parent = os.getpid()
    answer = libc.syscall(ctypes.c_long(number), *arguments)
    if os.getpid() != parent:
        os._exit(0)
    if answer != -1 or ctypes.get_errno() not in REFUSED:
        print(name, answer, errno.errorcode.get(ctypes.get_errno()), flush=True)


NOTHING = [ctypes.c_long(-1)] * 6
for name, number in NEEDED_BY_NOBODY.items():
    call(name, number, *NOTHING)
for number in range(500, 1024):
    call("a call that does not exist yet", number, *NOTHING)
for name, (number, *arguments) in NOT_LIKE_THIS.items():
    call(name, number, *arguments, *[0] * (6 - len(arguments)))
assert len(set(NEEDED_BY_NOBODY.values()) | {number for number, *_ in NOT_LIKE_THIS.values()}) >= 100
print("refused")
