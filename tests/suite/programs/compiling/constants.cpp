// A constant that takes a while to compute.
//: expect compilation_error
constexpr long count(long n) {
    long sum = 0;
    for (long i = 0; i < n; i++) sum += i % 7;
    return sum;
}
constexpr long a = count(10000000000L);
int main() { return a == 0; }
