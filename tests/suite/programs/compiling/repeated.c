// The assembler counts to a billion.
//: expect compilation_error
__asm__(".rept 1000000000\n.quad 0x1122334455667788\n.endr");
int main(void) {}
