#: expect timeout
#: timeout_ms 500
#: tags cpu
while True:
    pass
