# Leaves its cgroup, or makes one of its own without a limit.
#: prints refused
#: stages run compile
import os

TOPS = ("/sys/fs/cgroup", "/tmp/cgroup")
for top in TOPS:
    for folder, folders, names in os.walk(top):
        for name in ("cgroup.procs", "tasks", "memory.limit_in_bytes", "memory.max", "pids.max", "cpu.max", "release_agent"):
            try:
                with open(os.path.join(folder, name), "w") as file:
                    file.write(str(os.getpid()) if name in ("cgroup.procs", "tasks") else "999999999")
                print("wrote", folder, name)
            except OSError:
                pass
        try:
            os.mkdir(os.path.join(folder, "mine"))
            print("made one in", folder)
        except OSError:
            pass
print("refused")
