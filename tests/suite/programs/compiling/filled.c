// The assembler is asked for a terabyte.
//: expect compilation_error
__asm__(".data\n.fill 1099511627776, 1, 7");
int main(void) {}
