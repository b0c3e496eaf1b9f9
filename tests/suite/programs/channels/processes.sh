# What a test started is gone when the next one looks.
#: tests 3
#: prints 0
pgrep -c sleep 2>/dev/null || ls -d /proc/[0-9]* | while read -r p; do cat "$p/comm" 2>/dev/null; done | grep -c sleep
(setsid sleep 60 >/dev/null 2>&1 &)
true
