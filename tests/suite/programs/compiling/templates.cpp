// A billion types.
//: expect compilation_error
template <int N, int M> struct T { static const int x = T<N - 1, 2 * M>::x + T<N - 1, 2 * M + 1>::x; };
template <int M> struct T<0, M> { static const int x = M; };
int main() { return T<30, 0>::x; }
