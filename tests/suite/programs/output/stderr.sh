#: expect output_exceeded
yes >&2
