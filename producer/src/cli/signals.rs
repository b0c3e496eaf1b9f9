//! Being told to stop: Ctrl-C, a polite kill, or the end of the terminal.

use std::task::Poll;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tribunal_shared::request::RequestId;

use super::exit::Failure;

/// From the moment it exists signals no longer end the process, but are noted here.
pub struct Signals([Signal; 3]);

impl Signals {
    pub fn listen() -> Result<Self, Failure> {
        let listen =
            |kind| signal(kind).map_err(|error| Failure::Infrastructure(format!("cannot listen for signals: {error}")));
        Ok(Self([listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?, listen(SignalKind::hangup())?]))
    }

    /// Waits for a request that goes on when we are told to stop, and can be asked for later.
    pub async fn or_later<T>(id: &RequestId, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        Self::listen()?.or(work).await.map_err(|failure| match failure {
            Failure::Interrupted => Failure::StoppedWaiting(id.clone()),
            other => other,
        })
    }

    pub async fn next(&mut self) {
        std::future::poll_fn(|context| {
            let mut received = false;
            for signal in &mut self.0 {
                received |= signal.poll_recv(context).is_ready();
            }
            if received { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// The work, unless a signal comes first. The work is dropped then.
    pub async fn or<T>(&mut self, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        tokio::select! {
            outcome = work => outcome,
            () = self.next() => Err(Failure::Interrupted),
        }
    }
}
