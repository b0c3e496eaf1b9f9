# Many children, each too short to be noticed by whoever only looks now and then.
#: expect timeout
#: timeout_ms 500
#: tags cpu
while :; do /bin/true; done
