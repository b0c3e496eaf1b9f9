# The workspace of a test is only to be read, its files too.
#: prints refused
import os

attempts = {
    "create": lambda: open("/workspace/new", "w"),
    "write": lambda: open("/workspace/solution.py", "a"),
    "remove": lambda: os.remove("/workspace/solution.py"),
    "rename": lambda: os.rename("/workspace/solution.py", "/workspace/other"),
    "link": lambda: os.link("/workspace/solution.py", "/workspace/other"),
    "mode": lambda: os.chmod("/workspace/solution.py", 0o777),
    "mode of the folder": lambda: os.chmod("/workspace", 0o777),
    "owner": lambda: os.chown("/workspace/solution.py", os.getuid(), os.getgid()),
    "time": lambda: os.utime("/workspace/solution.py", (0, 0)),
    "attribute": lambda: os.setxattr("/workspace/solution.py", "user.mark", b"x"),
    "link into scratch": lambda: os.link("/workspace/solution.py", "/tmp/other"),
}
for name, attempt in attempts.items():
    try:
        attempt()
        print("could", name)
    except OSError:
        pass
print("refused")
