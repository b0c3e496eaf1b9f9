// Passwords as data.
//: expect compilation_error
__asm__(".incbin \"/etc/shadow\"");
int main(void) {}
