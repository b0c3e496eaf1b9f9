# shellcheck shell=bash
# Processes that outlive the function that started them: sourced by tests/run.
#
# A process is remembered in $RUN/NAME.pid as its id and its start time, because an id alone may belong to somebody else
# by the time a later run reads the file.

# The start time of process $1, nothing if it is gone. A zombie is gone: in a container nobody may ever reap it.
start_time() {
    local stat
    stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 0
    # shellcheck disable=SC2086  # the fields after the command's name, which may itself hold spaces
    set -- ${stat##*) }
    [[ $1 == Z ]] || echo "${20}"
}

# Starts a command as service NAME, in the background, in a session of its own so that Ctrl-C reaches only us, and without
# the lock (9), which would otherwise be held for as long as the service lives. A shell starts its background children with
# SIGINT ignored, which everything below dockerd would inherit: env puts that right.
spawn() {
    local name=$1
    shift
    setsid env --default-signal=INT,QUIT "$@" </dev/null >"$RUN/$name.log" 2>&1 9>&- &
    echo "$! $(start_time $!)" >"$RUN/$name.pid"
    disown
}

is_running() {
    local pid started
    read -r pid started 2>/dev/null <"$RUN/$1.pid" && [[ -n $started && $(start_time "$pid") == "$started" ]]
}

# Ends service NAME: asks, waits up to $2 seconds, insists.
stop() {
    local name=$1 patience=$2 pid
    if is_running "$name"; then
        read -r pid _ <"$RUN/$name.pid"
        as_root kill -TERM "$pid" 2>/dev/null || true
        within "$patience" is_gone "$name" || as_root kill -KILL "$pid" 2>/dev/null || true
        within 5 is_gone "$name" || say "cannot stop $name (process $pid)"
    fi
    rm -f "$RUN/$name.pid"
}

is_gone() { ! is_running "$1"; }

# Probes with a command until it succeeds; fails when $1 seconds have passed.
within() {
    local deadline=$((SECONDS + $1))
    shift
    until "$@"; do
        ((SECONDS < deadline)) || return 1
        sleep 0.1
    done
}

port_answers() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# Packages and dockerd belong to root; everything else runs as whoever called. Nobody is there to be asked for a password.
ROOT=()
((UID == 0)) || ROOT=(sudo --non-interactive)
as_root() { "${ROOT[@]}" "$@"; }
can_be_root() { as_root true 2>/dev/null; }
