// A header without an end.
//: expect compilation_error
#include "/dev/zero"
int main(void) {}
