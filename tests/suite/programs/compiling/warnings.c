// Much is said, and the program is right.
//: prints fine
#if __INCLUDE_LEVEL__ < 12
#include __FILE__
#include __FILE__
#else
#warning nothing but warnings, and each of them takes a line of its own
#endif
#if __INCLUDE_LEVEL__ == 0
#include <stdio.h>
int main(void) { puts("fine"); }
#endif
