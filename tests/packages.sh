# shellcheck shell=bash disable=SC2034  # variables used by the other sourced files
# What the suites need from the system: sourced by tests/run.

# A program that proves a package is there, and the package. A machine with, say, Docker from elsewhere keeps its own.
readonly SERVICE_PACKAGES=(
    dockerd docker.io
    runc runc
    runsc runsc
    iptables iptables
    redis-server redis-server
    redis-cli redis-tools
    /usr/lib/rabbitmq/bin/rabbitmq-server rabbitmq-server
    mmdebstrap mmdebstrap
    amqp-publish amqp-tools
    docker-registry docker-registry
    busybox busybox-static
)
# What the native sandbox shows of the machine: where it can be seen, not in somebody's home.
readonly TOOLCHAIN_PACKAGES=(
    /usr/bin/python3 python3
    /usr/bin/gcc gcc
    /usr/bin/g++ g++
    /usr/bin/javac default-jdk-headless
    /usr/bin/node nodejs
    /usr/bin/go golang-go
    /usr/bin/rustc rustc
    /usr/bin/ruby ruby
)
readonly BENCH_PACKAGES=(
    bwrap bubblewrap
    runc runc
)
readonly BUILD_PACKAGES=(cc build-essential)
readonly COMPOSE_PACKAGES=(docker-compose docker-compose)
readonly DEPLOY_PACKAGES=(
    kubectl kubernetes-client
    /usr/bin/python3 python3
)
readonly MACHINE_PACKAGES=(
    qemu-system-x86_64 qemu-system-x86
    genext2fs genext2fs
    mmdebstrap mmdebstrap
)

# Installs the packages of a list like those above whose program is missing.
require_packages() {
    local missing=()
    while (($#)); do
        command -v "$1" >/dev/null || missing+=("$2")
        shift 2
    done
    ((${#missing[@]})) || return 0

    say "installing ${missing[*]}"
    if ! command -v apt-get >/dev/null || ! can_be_root; then
        die "please install these Debian packages, or run as root or with a sudo that asks nothing: ${missing[*]}"
    fi
    as_root apt-get update -q >&2
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "${missing[@]}" >&2
}

require_cargo() {
    command -v cargo >/dev/null || die "cargo is missing: install Rust with rustup, see rust-lang.org/tools/install"
    require_packages "${BUILD_PACKAGES[@]}"
}

# Debian splits off the part of Python that a virtual environment is made with; it brings no program of its own.
require_venv() {
    /usr/bin/python3 -c 'import ensurepip' 2>/dev/null || require_packages '' python3-venv
}

require_nextest() {
    cargo nextest --version >/dev/null 2>&1 && return
    say "installing cargo-nextest, once for this machine (some minutes)"
    cargo install --locked cargo-nextest
}
