# Knows where the secrets are.
#: prints nothing
#: stages run compile
#: timeout_ms 10000
import os

PREFIXES = ("", "/proc/1/root", "/proc/self/root", "/proc/1/cwd/../../../..", "/workspace/../../../../../..", "/proc/self/cwd/../../../../..")
for path in "@SECRETS@".split():
    for prefix in PREFIXES:
        try:
            print(open(prefix + path).read())
        except OSError:
            pass
print("nothing")
