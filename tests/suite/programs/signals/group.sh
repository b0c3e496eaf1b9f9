# Kills its group, itself included.
#: expect runtime_error
kill -KILL 0
