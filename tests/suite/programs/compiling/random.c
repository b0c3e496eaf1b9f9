// A header that nobody has read.
//: expect compilation_error
#include "/dev/urandom"
int main(void) {}
