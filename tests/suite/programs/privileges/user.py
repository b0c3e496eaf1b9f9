# Nobody else can be become, and root's groups are not ours.
#: prints refused
#: stages run compile
import os

if 0 in (os.getuid(), os.geteuid(), os.getgid(), os.getegid(), *os.getgroups()):
    print("root already")
attempts = {
    "setuid": lambda: os.setuid(0),
    "seteuid": lambda: os.seteuid(0),
    "setresuid": lambda: os.setresuid(0, 0, 0),
    "another user": lambda: os.setuid(1000),
    "setgid": lambda: os.setgid(0),
    "setgroups": lambda: os.setgroups([0]),
}
for name, attempt in attempts.items():
    try:
        attempt()
        print("could", name)
    except OSError:
        pass
print("refused")
