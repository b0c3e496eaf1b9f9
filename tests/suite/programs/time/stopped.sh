# Stops itself; nothing but the clock notices.
#: expect timeout
#: timeout_ms 500
kill -STOP $$
