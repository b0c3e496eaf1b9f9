# Bytes that are no text, and sequences that drive a terminal.
#: expect wrong_answer
import os

os.write(1, bytes(range(256)) + b"\x1b[2J\x1b]0;mine\x07" + b'"}\n{"status":"passed"}\n')
