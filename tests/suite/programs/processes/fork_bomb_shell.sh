# The classic. bash gives up forking after a while, and may say so at length.
#: expect timeout output_exceeded runtime_error
#: timeout_ms 700
bomb() { bomb | bomb & }
bomb
while :; do bomb; done
