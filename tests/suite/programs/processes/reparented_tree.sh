# A tree of orphans, each with another parent than it was born to.
#: prints planted
for _ in 1 2 3 4 5; do
    (setsid bash -c '(setsid sleep 60 &); (trap "" TERM INT HUP; sleep 60) & disown -a; sleep 60' >/dev/null 2>&1 &)
done
echo planted
