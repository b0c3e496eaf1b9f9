# Uses much of what it may, and is not blamed.
#: prints done
#: timeout_ms 5000
#: tags cpu innocent
import time

end = time.process_time() + 0.5
while time.process_time() < end:
    pass
print("done")
