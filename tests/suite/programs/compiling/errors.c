// Errors without an end.
//: expect compilation_error
//: says (cut)
#if __INCLUDE_LEVEL__ < 13
#include __FILE__
#include __FILE__
#else
#error nothing but errors, and each of them takes a line of its own
#endif
