# shellcheck shell=bash
# RabbitMQ for the tests: sourced by tests/run.

rabbitmq_start() {
    # A fresh broker each time: what an earlier run left in its queues is nobody's business.
    rm -rf "$RUN/rabbitmq"
    mkdir -p "$RUN/rabbitmq"
    echo '[].' >"$RUN/rabbitmq/enabled_plugins"
    cat >"$RUN/rabbitmq/rabbitmq.conf" <<-'CONF'
		log.console = true
		log.console.level = warning
		log.file = false
	CONF

    # Everything that a node would otherwise share with another one on this machine: name, ports, folders, cookie (in
    # HOME), plugins. The program in lib is the server itself; Debian's wrapper in sbin insists on the system's user and
    # folders. "Under systemd" means: no shell in front of the Erlang VM, so that the id we remember is the server's.
    spawn rabbitmq env \
        HOME="$RUN/rabbitmq" \
        RABBITMQ_CONF_ENV_FILE=/dev/null \
        RABBITMQ_CONFIG_FILE="$RUN/rabbitmq/rabbitmq.conf" \
        RABBITMQ_ENABLED_PLUGINS_FILE="$RUN/rabbitmq/enabled_plugins" \
        RABBITMQ_LOG_BASE="$RUN/rabbitmq/log" \
        RABBITMQ_MNESIA_BASE="$RUN/rabbitmq/mnesia" \
        RABBITMQ_NODENAME=tribunal-test@localhost \
        RABBITMQ_NODE_IP_ADDRESS=127.0.0.1 \
        RABBITMQ_NODE_PORT="$AMQP_PORT" \
        RABBITMQ_DIST_PORT="$DIST_PORT" \
        RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS='-kernel inet_dist_use_interface {127,0,0,1}' \
        ERL_EPMD_PORT="$EPMD_PORT" \
        ERL_EPMD_ADDRESS=127.0.0.1 \
        RUNNING_UNDER_SYSTEMD=true \
        /usr/lib/rabbitmq/bin/rabbitmq-server
}

# The listener opens when the node has booted; it answers a protocol header with a frame of type 1 (connection.start).
rabbitmq_ready() {
    (
        exec 3<>"/dev/tcp/127.0.0.1/$AMQP_PORT"
        printf 'AMQP\0\0\x09\x01' >&3
        IFS= read -r -n1 -t2 frame <&3
        [[ $frame == $'\x01' ]]
    ) 2>/dev/null
}

rabbitmq_stop() {
    stop rabbitmq 20
    # The Erlang VM starts its name server as a daemon. Ours has a port of its own, which is how we name it here.
    ERL_EPMD_PORT=$EPMD_PORT epmd -kill >/dev/null 2>&1 || true
}
