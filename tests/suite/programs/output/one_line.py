# One line too long, and a polite end.
#: expect output_exceeded
print("x" * 100_000)
