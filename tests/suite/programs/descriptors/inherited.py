# Three descriptors are given, and nothing else is open.
#: prints 0 1 2
#: stages run compile
import os

opened = []
for descriptor in range(4096):
    try:
        os.fstat(descriptor)
        opened.append(str(descriptor))
    except OSError:
        pass
print(*opened)
