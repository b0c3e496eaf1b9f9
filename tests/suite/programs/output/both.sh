# Whoever reads one stream after the other hangs here.
#: expect output_exceeded
yes & yes >&2
