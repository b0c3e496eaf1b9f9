// Looks into the first process and into a neighbour.
//: prints refused
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void) {
    int child = fork();
    if (child == 0) for (;;) pause();
    int victims[] = {1, child, getppid()};
    for (int i = 0; i < 3; i++) {
        char byte;
        struct iovec local = {&byte, 1}, remote = {(void *)main, 1};
        if (ptrace(PTRACE_ATTACH, victims[i], 0, 0) != -1) printf("attached to %d\n", i);
        if (ptrace(0x4206, victims[i], 0, 0) != -1) printf("seized %d\n", i);
        if (syscall(SYS_process_vm_readv, victims[i], &local, 1, &remote, 1, 0) != -1) printf("read %d\n", i);
        if (syscall(SYS_process_vm_writev, victims[i], &local, 1, &remote, 1, 0) != -1) printf("wrote %d\n", i);
        int handle = syscall(SYS_pidfd_open, victims[i], 0);
        if (handle >= 0 && syscall(438, handle, 0, 0) != -1) printf("took a descriptor of %d\n", i);
    }
    if (ptrace(PTRACE_TRACEME, 0, 0, 0) != -1) puts("offered itself");
    puts("refused");
}
