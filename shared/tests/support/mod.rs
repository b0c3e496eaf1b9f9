//! What both contract suites need: services that fail on purpose, and deadlines.

use std::future::Future;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// The address of a real service, which `tests/run` starts.
pub fn service(variable: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| {
        panic!("{variable} is not set. Run `tests/run unit`, which starts the services and sets it")
    })
}

/// What is awaited arrives in time, or the test fails instead of hanging.
pub async fn soon<T>(awaited: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(15), awaited).await.expect("it did not happen within 15 s")
}

/// For absence, which no event can show.
pub async fn not_now<T>(awaited: impl Future<Output = T>) {
    let happened = tokio::time::timeout(Duration::from_millis(250), awaited).await;
    assert!(happened.is_err(), "it happened, though it must not");
}

/// Asks until the answer is right, for what a service does in its own time.
pub async fn until<T: std::fmt::Debug>(mut ask: impl AsyncFnMut() -> T, right: impl Fn(&T) -> bool) -> T {
    let deadline = Instant::now() + Duration::from_secs(15);
    loop {
        let answer = ask().await;
        if right(&answer) {
            return answer;
        }
        assert!(Instant::now() < deadline, "still {answer:?} after 15 s");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The answer, which must come within the 5 s that a person is ready to wait.
pub async fn within_5_s<T>(awaited: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(5), awaited).await.expect("no answer within 5 s")
}

/// A port where nothing listens.
pub async fn closed_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port()
}

/// A port that answers whoever calls with a few bytes of something else.
pub async fn stranger(answer: &'static [u8]) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut caller, _)) = listener.accept().await {
            tokio::spawn(async move {
                // Until the caller leaves: it goes wrong because of the answer, not because of a reset.
                let mut said = [0; 1024];
                while caller.read(&mut said).await.is_ok_and(|bytes| bytes > 0) {
                    let _ = caller.write_all(answer).await;
                }
            });
        }
    });
    port
}

pub const STRANGERS: [&[u8]; 2] =
    [b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", b"SSH-2.0-OpenSSH_10.0\r\n"];

/// A port that takes connections and never says a word.
pub async fn black_hole() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}
