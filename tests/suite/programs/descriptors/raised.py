# A limit is lowered, never raised.
#: prints refused
#: stages run compile
import resource

LIMITS = ("NOFILE", "CORE", "FSIZE")
for name in LIMITS:
    number = getattr(resource, "RLIMIT_" + name)
    hard = resource.getrlimit(number)[1]
    if hard == resource.RLIM_INFINITY:
        print(name, "has no limit")
        continue
    try:
        resource.setrlimit(number, (hard + 1, hard + 1))
        print("raised", name)
    except (OSError, ValueError):
        pass
print("refused")
