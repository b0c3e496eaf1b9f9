// A header that somebody would have to type.
//: prints compiled
#include "/dev/stdin"
#include <stdio.h>
int main(void) { puts("compiled"); }
