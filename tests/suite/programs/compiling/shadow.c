// Passwords as source: the compiler would quote them in its complaints.
//: expect compilation_error
#include "/etc/shadow"
int main(void) {}
