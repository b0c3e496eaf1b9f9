#: expect runtime_error
#: says SIGABRT
kill -ABRT $$
