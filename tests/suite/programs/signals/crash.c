//: expect runtime_error
//: says SIGSEGV
int main(void) {
    *(volatile int *)8 = 1;
}
