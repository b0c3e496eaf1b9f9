# Leaves a mark for the next test wherever it may, and looks for the last one's.
#: tests 3
#: prints 0
find /tmp /dev/shm /dev/mqueue -mindepth 1 2>/dev/null | wc -l
touch /tmp/mark /dev/shm/mark /dev/mqueue/mark 2>/dev/null
true
