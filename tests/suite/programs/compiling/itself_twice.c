// Two to the power of two hundred times itself.
//: expect compilation_error
#if __INCLUDE_LEVEL__ < 190
#include __FILE__
#include __FILE__
#endif
