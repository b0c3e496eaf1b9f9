# Does what the first word of its input says.
import os
import signal
import sys
import time

word, *numbers = input().split()
if word == "sum":
    print(sum(map(int, numbers)))
elif word == "exit":
    sys.exit(int(numbers[0]))
elif word == "signal":
    os.kill(os.getpid(), signal.SIGSEGV)
elif word == "spin":
    while True:
        pass
elif word == "sleep":
    time.sleep(60)
elif word == "memory":
    held = []
    while True:
        held.append(bytearray(1 << 20))
elif word == "flood":
    while True:
        print("flood" * 1000)
