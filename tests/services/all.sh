# shellcheck shell=bash disable=SC2034  # variables used by the other sourced files
# The services that the tests talk to, together: sourced by tests/run.
#
# They belong to the user, not to a clone: folders in $RUN, ports beside the defaults. A run stops what it used, unless
# --keep was given, now or when they were started; then the file $RUN/kept says so.

readonly SERVICES=(rabbitmq redis docker)

# In /tmp because the path of a unix socket may have 108 bytes only, whatever the clone's or the user's folder is called.
RUN=/tmp/tribunal-test-$UID
LOCKED=
CACHE=${TEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tribunal-tests}

# Taken once, held until the end.
services_lock() {
    [[ -z $LOCKED ]] || return 0
    mkdir -m 700 "$RUN" 2>/dev/null || true
    [[ -O $RUN && ! -L $RUN ]] || die "$RUN belongs to somebody else"
    exec 9>"$RUN/lock"
    flock --nonblock 9 || {
        say "waiting for another tests/run on this machine to end ($RUN/lock)"
        flock 9
    }
    LOCKED=yes
}

# Starts what is not running yet and exports the environment of the tests. Needs the lock.
services_start() {
    local service
    services_ports
    export DOCKER_HOST=unix://$RUN/docker.sock
    for service in "${SERVICES[@]}"; do
        is_running "$service" || "${service}_start"
    done
    for service in "${SERVICES[@]}"; do
        services_await "$service"
    done
    # Left by a run that was killed; but kept services may have containers that somebody is looking at.
    [[ -e $RUN/kept ]] || docker_remove_containers

    TEST_IMAGE=$("$TESTS/image/build" toolchains) || die "no test image"
    export TEST_IMAGE
    export TEST_AMQP_URL=amqp://guest:guest@127.0.0.1:$AMQP_PORT/%2f
    export TEST_REDIS_URL=redis://127.0.0.1:$REDIS_PORT/
    export TEST_DOCKER_HOST=$DOCKER_HOST
}

services_stop() {
    local service
    services_ports
    export DOCKER_HOST=unix://$RUN/docker.sock
    for service in "${SERVICES[@]}"; do
        "${service}_stop" &
    done
    wait
    rm -rf "$RUN"/{kept,ports,rabbitmq,redis,tribunal.toml}
}

# For the tests' own use, and, as settings, for a person who wants to try Tribunal on them.
services_print_env() {
    services_settings >"$RUN/tribunal.toml"
    printf "export %s='%s'\n" TEST_AMQP_URL "$TEST_AMQP_URL" TEST_REDIS_URL "$TEST_REDIS_URL" \
        TEST_DOCKER_HOST "$TEST_DOCKER_HOST" TEST_IMAGE "$TEST_IMAGE" TRIBUNAL_CONFIG "$RUN/tribunal.toml" \
        TRIBUNAL_QUEUE__URL "$TEST_AMQP_URL" TRIBUNAL_STORE__URL "$TEST_REDIS_URL"
}

services_settings() {
    local language
    printf 'queue.url = "%s"\nstore.url = "%s"\n' "$TEST_AMQP_URL" "$TEST_REDIS_URL"
    printf 'sandbox.kind = "docker"\nsandbox.docker.host = "%s"\nsandbox.docker.pull_policy = "never"\n' "$TEST_DOCKER_HOST"
    for language in $(grep -oP '^\[languages\.\K[a-z]+(?=\])' shared/languages.toml); do
        printf 'languages.%s.image = "%s"\n' "$language" "$TEST_IMAGE"
    done
}

# The ports of the services that run, or free ones: four in a row, below the range from which the kernel serves clients.
services_ports() {
    local base=21670
    if [[ ! -e $RUN/ports ]]; then
        while port_answers "$base" || port_answers $((base + 1)) || port_answers $((base + 2)) || port_answers $((base + 3)); do
            base=$((base + 10))
        done
        echo "$base" >"$RUN/ports"
    fi
    base=$(<"$RUN/ports")
    AMQP_PORT=$base DIST_PORT=$((base + 1)) EPMD_PORT=$((base + 2)) REDIS_PORT=$((base + 3))
}

services_await() {
    if within 60 services_settled "$1" && is_running "$1"; then return; fi
    say "$1 did not start; the end of $RUN/$1.log:"
    tail -n 25 "$RUN/$1.log" >&2
    die "$1 did not start"
}

# Ready, or dead already.
services_settled() { ! is_running "$1" || "$1_ready"; }
