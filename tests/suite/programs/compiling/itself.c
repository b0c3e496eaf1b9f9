// A header that is this file.
//: expect compilation_error
//: says nested
#include "solution.c"
int main(void) {}
