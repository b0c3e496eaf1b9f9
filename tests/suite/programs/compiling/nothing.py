# No program at all.
#: language forge
#: expect runtime_error
#: says could not be started
pass
