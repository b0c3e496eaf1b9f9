// Data without an end.
//: expect compilation_error
__asm__(".incbin \"/dev/zero\"");
int main(void) {}
