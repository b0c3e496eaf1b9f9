// A filter that asks its parent, who would say yes.
//: prints refused
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <pthread.h>
#include <poll.h>

static int listener = -1;

static void *agree(void *nothing) {
    struct pollfd ready = {listener, POLLIN, 0};
    if (listener >= 0 && poll(&ready, 1, 300) == 1) {
        struct seccomp_notif question = {0};
        if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &question) == 0) {
            struct seccomp_notif_resp answer = {.id = question.id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
            ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
        }
    }
    return nothing;
}

int main(void) {
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_unshare, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {4, rules};
    listener = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
    pthread_t agreeing;
    pthread_create(&agreeing, 0, agree, 0);
    puts(syscall(SYS_unshare, 0x10000000) == 0 ? "a namespace" : "refused");
    pthread_join(agreeing, 0);
}
