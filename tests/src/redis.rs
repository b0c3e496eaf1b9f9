//! A Redis of a test's own, which can be killed, frozen, made read-only and filled up.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::daemon::{Daemon, free_port, within};

const READY_WITHIN: Duration = Duration::from_secs(30);

/// Nothing of it is left when it is dropped.
pub struct Redis {
    port: u16,
    process: Option<Daemon>,
    folder: TempDir,
}

impl Redis {
    /// Ready to be asked.
    pub fn start() -> Self {
        let folder = tempfile::Builder::new().prefix("tribunal-redis-").tempdir().expect("a temporary folder");
        let mut redis = Self { port: free_port(), process: None, folder };
        redis.start_again();
        redis
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    pub fn log(&self) -> PathBuf {
        self.folder.path().join("redis.log")
    }

    /// Without a chance to say goodbye.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// With the data that it had; returns when it has read them.
    pub fn start_again(&mut self) {
        let mut command = Command::new("redis-server");
        // Results are never evicted and survive a restart, as in docker-compose.yml.
        command
            .args(["--bind", "127.0.0.1", "--port", &self.port.to_string(), "--daemonize", "no"])
            // On disk before it answers, as a fleet's must be: it is killed here.
            .args(["--appendonly", "yes", "--appendfsync", "always", "--save", ""])
            .args(["--maxmemory-policy", "noeviction", "--dir"])
            .arg(self.folder.path());
        self.process = Some(Daemon::start(&mut command, &self.log()).expect("redis-server is on the PATH"));
        let ready = within(READY_WITHIN, || self.ask(&["PING"]).is_ok_and(|answer| answer == "PONG"));
        assert!(ready, "Redis is not ready within {READY_WITHIN:?}, see {}", self.log().display());
    }

    pub fn freeze(&self) {
        self.process.as_ref().expect("it runs").freeze();
    }

    pub fn thaw(&self) {
        self.process.as_ref().expect("it runs").thaw();
    }

    /// As a replica is, after a failover that the clients have not noticed.
    pub fn set_read_only(&self, read_only: bool) {
        // Nobody listens on port 1, so nothing is ever copied from there over our data.
        self.tell(if read_only { &["REPLICAOF", "127.0.0.1", "1"] } else { &["REPLICAOF", "NO", "ONE"] });
    }

    pub fn set_out_of_memory(&self, out: bool) {
        self.tell(&["CONFIG", "SET", "maxmemory", if out { "1" } else { "0" }]);
    }

    fn tell(&self, words: &[&str]) {
        let answer = self.ask(words).expect("redis-cli can be run");
        assert!(answer.starts_with("OK"), "Redis answers {words:?} with {answer:?}");
    }

    fn ask(&self, words: &[&str]) -> std::io::Result<String> {
        let port = self.port.to_string();
        let output = Command::new("redis-cli").args(["-h", "127.0.0.1", "-p", &port]).args(words).output()?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }
}
