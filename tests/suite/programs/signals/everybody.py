# Kills everybody it can.
#: prints alone
import os
import signal

for number in (signal.SIGHUP, signal.SIGINT, signal.SIGSTOP, signal.SIGKILL):
    signal.signal(number, signal.SIG_IGN) if number not in (signal.SIGSTOP, signal.SIGKILL) else None
    try:
        os.kill(-1, number)
    except OSError:
        pass
print("alone")
