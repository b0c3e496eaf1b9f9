# Never much, never the end.
#: expect timeout
#: timeout_ms 600
while :; do echo drip; sleep 0.05; done
