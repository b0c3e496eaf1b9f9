# shellcheck shell=bash
# Redis for the tests: sourced by tests/run.

# As in docker-compose.yml: results are never evicted and survive a restart.
redis_start() {
    rm -rf "$RUN/redis"
    mkdir -p "$RUN/redis"
    spawn redis redis-server --bind 127.0.0.1 --port "$REDIS_PORT" --dir "$RUN/redis" --daemonize no \
        --appendonly yes --maxmemory-policy noeviction
}

redis_ready() { [[ $(redis-cli -h 127.0.0.1 -p "$REDIS_PORT" ping 2>/dev/null) == PONG ]]; }

redis_stop() { stop redis 10; }
