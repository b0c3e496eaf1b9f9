#: language forge
#: expect compilation_error
#: tags disk
import os

number = 0
while True:
    os.close(os.open(str(number), os.O_CREAT | os.O_WRONLY))
    number += 1
