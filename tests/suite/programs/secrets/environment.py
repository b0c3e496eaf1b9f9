# Reads the environment of everybody it can see.
#: prints nothing
#: stages run compile
import os

for name in os.listdir("/proc"):
    try:
        content = open(f"/proc/{name}/environ", "rb").read() if name.isdigit() else b""
        if b"@BEGINNING@" in content:
            print(name, content)
    except OSError:
        pass
if any("@BEGINNING@" in value for value in os.environ.values()):
    print(os.environ)
print("nothing")
