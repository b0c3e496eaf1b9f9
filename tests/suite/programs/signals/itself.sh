#: expect runtime_error
#: says SIGKILL
kill -KILL $$
