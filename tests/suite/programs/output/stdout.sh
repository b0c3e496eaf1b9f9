#: expect output_exceeded
yes
