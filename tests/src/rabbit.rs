//! RabbitMQ nodes of a test's own, alone or as a cluster, which can be killed, frozen, cut off and alarmed.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;

use crate::daemon::{Daemon, free_port, within};

// Not Debian's wrappers, which insist on the system's user and folders.
const SERVER: &str = "/usr/lib/rabbitmq/bin/rabbitmq-server";
const CONTROL: &str = "/usr/lib/rabbitmq/bin/rabbitmqctl";
const READY_WITHIN: Duration = Duration::from_secs(90);
const CONFIGURATION: &str = "log.console = true\nlog.console.level = warning\nlog.file = false\n";
const ENOUGH_DISK: &str = "50MB";
const MORE_DISK_THAN_THERE_IS: &str = "1000000GB";

/// Nothing of it is left when it is dropped.
pub struct Node {
    name: String,
    port: u16,
    distribution_port: u16,
    process: Option<Daemon>,
    folder: TempDir,
    /// Last: it ends after the last of its nodes.
    names: Arc<NameServer>,
}

/// How many messages a queue has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueDepth {
    pub queue: String,
    pub ready: u64,
    pub unacked: u64,
}

impl Node {
    /// Ready to be connected to.
    pub fn start() -> Self {
        let mut node = Self::new("rabbit", Arc::new(NameServer { port: free_port() }));
        node.start_again();
        node
    }

    fn new(name: &str, names: Arc<NameServer>) -> Self {
        let folder = tempfile::Builder::new().prefix("tribunal-rabbit-").tempdir().expect("a temporary folder");
        let write = |file: &str, text: &str| {
            let path = folder.path().join(file);
            std::fs::write(&path, text).expect("a file in a folder of ours");
            path
        };
        write("rabbitmq.conf", CONFIGURATION);
        write("enabled_plugins", "[].");
        // What tells friend from foe; the same for all of a cluster. Erlang takes none that others can read.
        let cookie = write(".erlang.cookie", &format!("tribunal{}", names.port));
        std::fs::set_permissions(cookie, std::fs::Permissions::from_mode(0o400)).expect("our own file");
        Self {
            name: format!("{name}@localhost"),
            port: free_port(),
            distribution_port: free_port(),
            process: None,
            folder,
            names,
        }
    }

    pub fn url(&self) -> String {
        format!("amqp://guest:guest@127.0.0.1:{}/%2f", self.port)
    }

    pub fn log(&self) -> PathBuf {
        self.folder.path().join("rabbitmq.log")
    }

    /// Without a chance to say goodbye.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// On the same port, with the data that it had; returns when it takes connections.
    pub fn start_again(&mut self) {
        self.launch();
        self.await_ready();
    }

    fn launch(&mut self) {
        // "Under systemd" means: no shell in front of the Erlang VM, so that our child is the server.
        let mut server = self.command(SERVER);
        server.env("RUNNING_UNDER_SYSTEMD", "true");
        self.process = Some(Daemon::start(&mut server, &self.log()).expect("RabbitMQ is installed"));
    }

    fn await_ready(&mut self) {
        let port = self.port;
        let process = self.process.as_mut().expect("it was launched");
        let settled = within(READY_WITHIN, || process.has_ended() || greets(port));
        let lives = settled && !process.has_ended();
        assert!(lives, "RabbitMQ is not ready within {READY_WITHIN:?}, see {}", self.log().display());
    }

    pub fn freeze(&self) {
        self.process.as_ref().expect("it runs").freeze();
    }

    pub fn thaw(&self) {
        self.process.as_ref().expect("it runs").thaw();
    }

    /// Ends every connection of every client.
    pub fn cut_connections(&self) {
        self.control(&["close_all_connections", "cut by a test"]);
    }

    /// With it, publishers are blocked, as when the disk is nearly full.
    pub fn set_disk_alarm(&self, raised: bool) {
        self.control(&["set_disk_free_limit", if raised { MORE_DISK_THAN_THERE_IS } else { ENOUGH_DISK }]);
    }

    pub fn queues(&self) -> Vec<QueueDepth> {
        let columns = ["name", "messages_ready", "messages_unacknowledged"];
        let mut words = vec!["list_queues", "--silent", "--no-table-headers"];
        words.extend(columns);
        let parse = |line: &str| {
            let mut fields = line.split('\t');
            let queue = fields.next()?.to_owned();
            let mut number = || fields.next()?.trim().parse().ok();
            Some(QueueDepth { queue, ready: number()?, unacked: number()? })
        };
        self.control(&words).lines().map(|line| parse(line).unwrap_or_else(|| panic!("no queue: {line:?}"))).collect()
    }

    fn control(&self, words: &[&str]) -> String {
        let output = self.command(CONTROL).args(words).output().expect("rabbitmqctl can be run");
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "rabbitmqctl {words:?} on {}: {complaint}", self.name);
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// With everything that a node would otherwise share with another one on this machine: name, ports, folders, cookie
    /// (in HOME), plugins.
    fn command(&self, program: &str) -> Command {
        let inside = |name: &str| self.folder.path().join(name);
        let mut command = Command::new(program);
        command
            .env("HOME", self.folder.path())
            .env("RABBITMQ_CONF_ENV_FILE", "/dev/null")
            .env("RABBITMQ_CONFIG_FILE", inside("rabbitmq.conf"))
            .env("RABBITMQ_ENABLED_PLUGINS_FILE", inside("enabled_plugins"))
            .env("RABBITMQ_LOG_BASE", inside("log"))
            .env("RABBITMQ_MNESIA_BASE", inside("mnesia"))
            .env("RABBITMQ_NODENAME", &self.name)
            .env("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1")
            .env("RABBITMQ_NODE_PORT", self.port.to_string())
            .env("RABBITMQ_DIST_PORT", self.distribution_port.to_string())
            .env("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", "-kernel inet_dist_use_interface {127,0,0,1}")
            .env("ERL_EPMD_PORT", self.names.port.to_string())
            .env("ERL_EPMD_ADDRESS", "127.0.0.1");
        command
    }

    fn folder(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self.log()).unwrap_or_default();
            let end: Vec<_> = log.lines().rev().take(15).collect();
            eprintln!("{} in {} said last:", self.name, self.folder().display());
            end.into_iter().rev().for_each(|line| eprintln!("  {line}"));
        }
    }
}

/// Erlang's name server. The first node of its port starts it, as a daemon, which would stay for ever.
struct NameServer {
    port: u16,
}

impl Drop for NameServer {
    fn drop(&mut self) {
        let _ = Command::new("epmd").env("ERL_EPMD_PORT", self.port.to_string()).arg("-kill").output();
    }
}

/// The listener opens when the node has booted; it answers a protocol header with a frame of type 1 (connection.start).
fn greets(port: u16) -> bool {
    let greeting = || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        stream.write_all(b"AMQP\0\0\x09\x01")?;
        let mut kind = [0];
        stream.read_exact(&mut kind)?;
        Ok(kind == [1])
    };
    greeting().unwrap_or(false)
}

/// Nodes that share their queues.
pub struct Cluster {
    nodes: Vec<Node>,
}

impl Cluster {
    /// All of them ready, and members.
    pub fn start(size: usize) -> Self {
        let names = Arc::new(NameServer { port: free_port() });
        let mut nodes: Vec<_> =
            (0..size).map(|number| Node::new(&format!("rabbit{number}"), Arc::clone(&names))).collect();
        nodes.iter_mut().for_each(Node::launch);
        nodes.iter_mut().for_each(Node::await_ready);
        let (first, others) = nodes.split_first().expect("a cluster has nodes");
        for node in others {
            node.control(&["stop_app"]);
            node.control(&["join_cluster", &first.name]);
            node.control(&["start_app"]);
        }
        Self { nodes }
    }

    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    pub fn node(&mut self, number: usize) -> &mut Node {
        &mut self.nodes[number]
    }
}
