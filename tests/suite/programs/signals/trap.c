//: expect runtime_error
//: says SIGILL
int main(void) {
    __builtin_trap();
}
