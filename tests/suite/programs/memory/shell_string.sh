# A string that doubles.
#: expect memory_exceeded
#: memory_mb 32
#: timeout_ms 10000
a=xxxxxxxx
while :; do a=$a$a; done
