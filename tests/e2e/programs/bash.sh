# Does what the first word of its input says.
read -r word a b
case $word in
    sum) echo $((a + b)) ;;
    exit) exit "$a" ;;
    signal) kill -SEGV $$ ;;
    spin) while :; do :; done ;;
    sleep) sleep 60 ;;
    memory) held=xxxxxxxxxxxxxxxx; while :; do held=$held$held; done ;;
    flood) while :; do echo "flood flood flood flood flood flood flood flood"; done ;;
esac
