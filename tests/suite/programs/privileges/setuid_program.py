# Starts every program that would make it root elsewhere.
#: prints 0 became root
#: timeout_ms 10000
import os
import stat
import subprocess

became = 0
for folder in ("/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/lib"):
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        path = os.path.join(folder, name)
        try:
            mode = os.stat(path).st_mode
        except OSError:
            continue
        if not stat.S_ISREG(mode) or not mode & (stat.S_ISUID | stat.S_ISGID):
            continue
        child = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            fields = dict(line.split(":", 1) for line in open(f"/proc/{child.pid}/status"))
            became += fields["Uid"].split()[1] == "0" or "0" in fields["CapEff"].strip("0\t\n")
        except OSError:
            pass
        child.kill()
        child.wait()
print(became, "became root")
