// A gigabyte that is only asked for when it runs: small as a file, and only what is touched counts.
//: memory_mb 32
//: prints small
#include <stdio.h>
int a[1 << 28];
int main(void) { a[1 << 27] = 1; puts("small"); }
