// A binary of a gigabyte.
//: expect compilation_error
int a[1 << 28] = {1};
int main(void) { return a[0]; }
