// New namespaces of every kind, by every call that makes or enters them.
//: prints refused
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void) {
    static const struct { const char *name; unsigned long flag; } kinds[] = {
        {"mnt", 0x00020000}, {"cgroup", 0x02000000}, {"uts", 0x04000000}, {"ipc", 0x08000000},
        {"user", 0x10000000}, {"pid", 0x20000000}, {"net", 0x40000000}, {"time", 0x80},
    };
    for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (unshare(kinds[i].flag) == 0) printf("unshared %s\n", kinds[i].name);
        /* The flag of the time namespace is a signal's number to the old call. */
        if (kinds[i].flag != 0x80) {
            long child = syscall(SYS_clone, kinds[i].flag | SIGCHLD, 0, 0, 0, 0);
            if (child == 0) _exit(0);
            if (child > 0) printf("cloned %s\n", kinds[i].name);
        }
        char path[32];
        for (int process = 0; process < 2; process++) {
            snprintf(path, sizeof path, "/proc/%s/ns/%s", process ? "1" : "self", kinds[i].name);
            int handle = open(path, O_RDONLY);
            if (handle >= 0 && setns(handle, 0) == 0) printf("entered %s\n", path);
        }
    }
    puts("refused");
}
