// A planted secret as data.
//: expect compilation_error
__asm__(".incbin \"@SECRET@\"");
int main(void) {}
