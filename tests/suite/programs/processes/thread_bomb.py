# Threads count as processes.
#: prints bounded
#: timeout_ms 5000
import threading

stop = threading.Event()
count = 1
try:
    while count < 1000:
        threading.Thread(target=stop.wait, daemon=True).start()
        count += 1
except RuntimeError:
    pass
print("bounded" if count == 64 else count)
