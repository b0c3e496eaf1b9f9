//! A Redis of one test's own, to be misconfigured, killed and started again.

use std::process::{Child, Command, Stdio};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

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

    /// Returns once it has read its data.
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
        let port = self.port;
        until(
            async || ping(port).await.unwrap_or_default(),
            |answer| !answer.is_empty() && !answer.contains("LOADING"),
        )
        .await;
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

/// `PONG`, or that it is still loading, or that it wants a password first.
async fn ping(port: u16) -> std::io::Result<String> {
    let mut server = BufReader::new(TcpStream::connect(("127.0.0.1", port)).await?);
    server.write_all(b"PING\r\n").await?;
    let mut answer = String::new();
    server.read_line(&mut answer).await?;
    Ok(answer)
}
