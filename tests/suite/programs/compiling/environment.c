// The compiler's own environment as source.
//: expect compilation_error
#include "/proc/self/environ"
#include "/proc/1/environ"
int main(void) {}
