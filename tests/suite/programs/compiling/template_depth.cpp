// A type that contains itself, once larger.
//: expect compilation_error
template <class T> struct Deeper { static const int x = Deeper<Deeper<T>>::x; };
int main() { return Deeper<int>::x; }
