//! A Redis of one test's own, to be misconfigured, killed and started again.

use std::process::{Child, Command, Stdio};

use crate::support::{closed_port, until};

pub struct Server {
    pub port: u16,
    folder: tempfile::TempDir,
    options: Vec<&'static str>,
    process: Option<Child>,
}

impl Server {
    pub async fn start(options: &[&'static str]) -> Self {
        let (port, folder) = (closed_port().await, tempfile::tempdir().unwrap());
        let mut server = Self { port, folder, options: options.to_vec(), process: None };
        server.start_again().await;
        server
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// Returns once it listens.
    pub async fn start_again(&mut self) {
        assert!(self.process.is_none(), "it runs already");
        let process = Command::new("redis-server")
            .args([
                "--bind",
                "127.0.0.1",
                "--port",
                &self.port.to_string(),
                "--appendonly",
                "yes",
                "--save",
                "",
                "--dir",
            ])
            .arg(self.folder.path())
            .args(&self.options)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is on the PATH");
        self.process = Some(process);
        let address = ("127.0.0.1", self.port);
        until(async || tokio::net::TcpStream::connect(address).await.is_ok(), |listens| *listens).await;
    }

    /// Without a chance to say goodbye.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().expect("our own child can be killed");
            process.wait().expect("our own child can be waited for");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}
