# shellcheck shell=bash
# A Docker daemon for the tests: sourced by tests/run.
#
# Its images live in the cache and outlive the run; its containers do not. It leaves the machine's firewall, bridges and
# the system's own daemon alone.

docker_start() {
    mkdir -p "$CACHE/docker"
    echo '{}' >"$RUN/daemon.json" # not the system's file, whose options may contradict ours
    spawn docker "${ROOT[@]}" dockerd \
        --config-file "$RUN/daemon.json" \
        --host "unix://$RUN/docker.sock" \
        --group "$(id -g)" \
        --data-root "$CACHE/docker" \
        --exec-root "$RUN/docker" \
        --pidfile "$RUN/dockerd.pid" \
        --bridge=none --iptables=false --ip6tables=false \
        --exec-opt native.cgroupdriver=cgroupfs
}

docker_ready() { docker version >/dev/null 2>&1; }

# The daemon is ours alone, and so is every container on it.
docker_remove_containers() {
    local containers
    mapfile -t containers < <(docker ps --all --quiet)
    ((${#containers[@]} == 0)) || docker rm --force --volumes "${containers[@]}" >/dev/null
}

docker_stop() {
    if docker_ready; then docker_remove_containers || true; fi
    stop docker 30
    docker_stop_containerd
}

# dockerd takes its containerd with it, unless it was killed.
docker_stop_containerd() {
    local pid
    pid=$(cat "$RUN/docker/containerd/containerd.pid" 2>/dev/null) || return 0
    if grep -qF "$RUN/docker" "/proc/$pid/cmdline" 2>/dev/null; then as_root kill -TERM "$pid" || true; fi
}
