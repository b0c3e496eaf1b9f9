// A parent that cannot go on before its child does, and cannot be interrupted by much.
//: expect timeout
//: timeout_ms 500
#define _GNU_SOURCE
#include <unistd.h>

int main(void) {
    if (vfork() == 0) {
        for (;;) pause();
    }
}
