# Nobody is found by name.
#: prints not found
(exec 3<>/dev/tcp/127.0.0.1/@PORT@) 2>/dev/null && echo reached
(exec 3<>/dev/udp/127.0.0.1/53) 2>/dev/null && echo reached
getent hosts example.org >/dev/null 2>&1 && echo found
echo not found
