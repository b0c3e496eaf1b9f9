# What the kernel says about us.
#: stages run compile
#: prints CapInh 0000000000000000
#: prints CapPrm 0000000000000000
#: prints CapEff 0000000000000000
#: prints CapBnd 0000000000000000
#: prints CapAmb 0000000000000000
#: prints NoNewPrivs 1
#: prints Seccomp 2
FIELDS = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp")
for line in open("/proc/self/status"):
    name, value = line.split(":", 1)
    if name in FIELDS:
        print(name, value.strip())
