#: expect timeout
#: timeout_ms 500
import os
end = os.pipe()[1]
while True:
    os.write(end, bytes(4096))
