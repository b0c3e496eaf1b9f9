#: language lookout
#: expect compilation_error
#: says out of memory
#: tags memory
x = b"x" * (800 << 20)
