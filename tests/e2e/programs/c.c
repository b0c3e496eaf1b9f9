// Does what the first word of its input says.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
    char word[16];
    int a = 0, b = 0;
    if (scanf("%15s %d %d", word, &a, &b) < 1) return 1;
    if (strcmp(word, "sum") == 0) {
        printf("%d\n", a + b);
    } else if (strcmp(word, "exit") == 0) {
        return a;
    } else if (strcmp(word, "signal") == 0) {
        *(volatile int *)0 = 1;
    } else if (strcmp(word, "spin") == 0) {
        for (volatile unsigned i = 0;; i++) {}
    } else if (strcmp(word, "sleep") == 0) {
        extern unsigned sleep(unsigned);
        sleep(60);
    } else if (strcmp(word, "memory") == 0) {
        for (;;) memset(malloc(1 << 20), 1, 1 << 20);
    } else if (strcmp(word, "flood") == 0) {
        for (;;) puts("flood flood flood flood flood flood flood flood");
    }
    return 0;
}
