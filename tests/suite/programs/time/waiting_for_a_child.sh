#: expect timeout
#: timeout_ms 500
sleep 600 &
wait
