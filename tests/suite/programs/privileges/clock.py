# Sets the clock, the name of the host and the priority.
#: prints refused
#: stages run compile
import ctypes
import os
import socket
import time

libc = ctypes.CDLL(None, use_errno=True)


def nice():
    before = os.nice(0)
    os.nice(-5)
    return os.nice(0) < before


attempts = {
    "clock": lambda: time.clock_settime(time.CLOCK_REALTIME, 0) is None,
    "settimeofday": lambda: libc.settimeofday(b"\0" * 16, None) == 0,
    "adjtimex": lambda: libc.syscall(159, b"\xff" + b"\0" * 207) != -1,
    "hostname": lambda: socket.sethostname("mine") is None,
    "domain": lambda: libc.setdomainname(b"mine", 4) == 0,
    "nice": nice,
    "real time": lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50)) is None,
    "priority of the first process": lambda: os.setpriority(os.PRIO_PROCESS, 1, 19) is None,
    "scheduler of the first process": lambda: os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0)) is None,
    "reboot": lambda: libc.syscall(169, 0xFEE1DEAD, 672274793, 0x89ABCDEF, 0) != -1,
    "swap": lambda: libc.swapon(b"/tmp/swap", 0) == 0,
    "accounting": lambda: libc.acct(b"/tmp/account") == 0,
}
for name, attempt in attempts.items():
    try:
        if attempt():
            print("could", name)
    except OSError:
        pass
print("refused")
