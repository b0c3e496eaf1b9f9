#: language forge
#: expect compilation_error
#: tags disk
with open("large", "wb") as file:
    while True:
        file.write(b"x" * (4 << 20))
