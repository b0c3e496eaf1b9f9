# There is at most a loopback, and no road from it.
#: prints lo
#: stages run compile
import os

try:
    names = [line.split(":")[0].strip() for line in open("/proc/net/dev").read().splitlines()[2:]]
    routes = open("/proc/net/route").read().splitlines()[1:]
except FileNotFoundError:
    names, routes = ["lo"], []
print(*names, *routes)
for path in ("/sys/class/net",):
    if os.path.isdir(path) and set(os.listdir(path)) - {"lo"}:
        print(os.listdir(path))
