# Turns the kernel's switches, and reads what is not ours.
#: prints refused
#: stages run compile
import os

WRITE = (
    "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/sys/kernel/modprobe",
    "/proc/sys/vm/drop_caches", "/proc/sys/vm/overcommit_memory", "/proc/sys/fs/file-max", "/proc/sys/kernel/panic",
    "/proc/sys/kernel/ns_last_pid", "/proc/sys/net/ipv4/ip_forward", "/proc/sysrq-trigger", "/proc/irq/0/smp_affinity",
    "/proc/1/oom_score_adj", "/proc/1/comm", "/proc/1/mem", "/proc/1/attr/current", "/proc/1/clear_refs",
    "/proc/1/uid_map", "/proc/1/setgroups", "/proc/self/uid_map", "/proc/self/gid_map",
    "/sys/kernel/uevent_helper", "/sys/power/state", "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory.max",
)
READ = (
    "/proc/kcore", "/proc/kmsg", "/proc/kpagecount", "/proc/kpageflags", "/proc/1/environ", "/proc/1/mem",
    "/proc/1/maps", "/proc/1/auxv", "/proc/1/syscall", "/proc/1/stack", "/proc/1/io", "/proc/1/cwd/.", "/proc/1/root/.",
    "/proc/1/fd/0", "/proc/1/fd/2", "/dev/mem", "/dev/kmsg", "/etc/shadow", "/etc/gshadow", "/etc/sudoers",
    "/sys/kernel/debug/.", "/sys/kernel/tracing/trace", "/sys/firmware/acpi/tables/DSDT", "/var/run/docker.sock",
    "/run/docker.sock", "/root/.",
)
for path in WRITE:
    try:
        os.close(os.open(path, os.O_WRONLY))
        # Anybody may open some of them; what counts is what comes of it.
        with open(path, "r+b", buffering=0) as file:
            file.write(b"0")
        print("wrote", path)
    except OSError:
        pass
for path in READ:
    try:
        if path.endswith("/."):
            if not os.listdir(path):
                continue
        elif not open(path, "rb", buffering=0).read(1):
            continue
        print("read", path)
    except OSError:
        pass
print("refused")
