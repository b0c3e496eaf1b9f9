# Writes until it may not.
#: language forge
#: expect compilation_error
#: tags disk
for number in range(10_000):
    with open(str(number), "wb") as file:
        file.write(b"x" * (4 << 20))
