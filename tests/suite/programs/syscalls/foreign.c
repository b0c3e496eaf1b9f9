// System calls of other architectures, which a filter for one may overlook: 32-bit ones and those of x32.
//: prints refused
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static long old_getpid(void) {
    long answer = 20;
    __asm__ volatile("int $0x80" : "+a"(answer) : : "memory", "r8", "r9", "r10", "r11");
    return answer;
}

static long x32_getpid(void) {
    long answer = 0x40000000 + 39;
    __asm__ volatile("syscall" : "+a"(answer) : : "memory", "rcx", "r11");
    return answer;
}

/* In a child, because being killed for it is an answer, too. */
static void attempt(const char *name, long (*call)(void)) {
    fflush(stdout);
    int child = fork();
    if (child == 0) _exit(call() > 0 ? 7 : 0);
    int status;
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 7) printf("%s was answered\n", name);
}

int main(void) {
    attempt("int 0x80", old_getpid);
    attempt("x32", x32_getpid);
    puts("refused");
}
