# shellcheck shell=bash
# A Docker daemon for the tests: sourced by tests/run.
#
# Its images live in the cache and outlive the run; its containers do not. It leaves the machine's firewall, bridges and
# the system's own daemon alone.

docker_start() {
    mkdir -p "$CACHE/docker"
    # Of a killed daemon and its containerd, which dies with it: to them a zombie nobody reaps looks alive.
    as_root rm -f "$RUN/dockerd.pid" "$RUN/docker/containerd/containerd.pid"
    # Not the system's file, whose options may contradict ours. gVisor is for the tests of another runtime.
    echo '{"runtimes": {"runsc": {"path": "runsc", "runtimeArgs": ["--platform=ptrace", "--network=none"]}}}' \
        >"$RUN/daemon.json"
    spawn docker "${ROOT[@]}" dockerd \
        --config-file "$RUN/daemon.json" \
        --host "unix://$RUN/docker.sock" \
        --group "$(id -g)" \
        --data-root "$CACHE/docker" \
        --exec-root "$RUN/docker" \
        --pidfile "$RUN/dockerd.pid" \
        --bridge=none --iptables=false --ip6tables=false
}

docker_ready() { docker version >/dev/null 2>&1; }

# The daemon is ours alone, and so is every container on it.
docker_remove_containers() {
    local containers
    mapfile -t containers < <(docker ps --all --quiet)
    ((${#containers[@]} == 0)) || docker rm --force --volumes "${containers[@]}" >/dev/null
}

# Its containerd ends with it. Containers of a killed daemon are found and removed by the next one; its mount is not.
docker_stop() {
    if docker_ready; then docker_remove_containers || true; fi
    stop docker 30
    if mountpoint --quiet "$CACHE/docker"; then as_root umount "$CACHE/docker"; fi
}
