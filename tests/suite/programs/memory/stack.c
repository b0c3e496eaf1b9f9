// Calls itself until the stack ends.
//: expect runtime_error memory_exceeded
//: memory_mb 64
#include <stdio.h>
#include <string.h>

int dig(volatile char *above, int depth) {
    volatile char room[4096];
    memset((char *)room, depth, sizeof room);
    return dig(room, depth + 1) + above[0];
}

int main(void) {
    volatile char top = 1;
    printf("%d\n", dig(&top, 0));
}
