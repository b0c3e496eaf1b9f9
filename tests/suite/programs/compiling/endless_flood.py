# A compiler that never stops talking is stopped by the clock.
#: language forge
#: expect compilation_error
#: says timed out
while True:
    print("x" * 1000)
