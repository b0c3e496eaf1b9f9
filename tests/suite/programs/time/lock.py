#: expect timeout
#: timeout_ms 500
import threading
lock = threading.Lock()
lock.acquire()
lock.acquire()
