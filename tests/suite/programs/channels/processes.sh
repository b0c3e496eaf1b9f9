# What a test started is gone when the next one looks.
#: tests 3
#: prints 0
cat /proc/[0-9]*/comm | grep -c sleep
(setsid sleep 60 >/dev/null 2>&1 &)
true
