// A planted secret as source.
//: expect compilation_error
//: says No such file
#include "@SECRET@"
int main(void) {}
