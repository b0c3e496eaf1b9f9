//! Places where a test can have the worker die, compiled in only with the feature `failpoints`.
//!
//! `TEST_FAILPOINT=NAME:N` kills it when it comes to NAME for the N-th time, `NAME@PREFIX` whenever it comes there with a
//! request whose id starts with PREFIX. It dies as by `kill -9`, without a chance to say more than where. `NAME!PREFIX` is a
//! panic instead.

use tribunal_shared::request::RequestId;

/// The step that a request has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    Received,
    Claimed,
    Workspace,
    Compiled,
    /// A moment later, when the program runs.
    TestStarted,
    TestEnded,
    BeforeStore,
    AfterStore,
    BeforeAck,
}

#[cfg(not(feature = "failpoints"))]
#[inline(always)]
pub fn reach(_point: Point, _id: Option<&RequestId>) {}

#[cfg(feature = "failpoints")]
pub use armed::reach;

#[cfg(feature = "failpoints")]
mod armed {
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use super::{Point, RequestId};

    const VARIABLE: &str = "TEST_FAILPOINT";
    const A_MOMENT: Duration = Duration::from_millis(5);

    enum When {
        /// Counts down.
        Times(AtomicU64),
        Prefix(String),
        Panic(String),
    }

    static ARMED: LazyLock<Option<(String, When)>> = LazyLock::new(|| {
        let text = std::env::var(VARIABLE).ok()?;
        let parsed = if let Some((name, times)) = text.split_once(':') {
            times.parse().ok().map(|times| (name.to_owned(), When::Times(AtomicU64::new(times))))
        } else if let Some((name, prefix)) = text.split_once('!') {
            Some((name.to_owned(), When::Panic(prefix.to_owned())))
        } else {
            text.split_once('@').map(|(name, prefix)| (name.to_owned(), When::Prefix(prefix.to_owned())))
        };
        Some(parsed.unwrap_or_else(|| panic!("{VARIABLE}: {text:?} is neither NAME:N nor NAME@PREFIX nor NAME!PREFIX")))
    });

    fn name(point: Point) -> &'static str {
        match point {
            Point::Received => "received",
            Point::Claimed => "claimed",
            Point::Workspace => "workspace",
            Point::Compiled => "compiled",
            Point::TestStarted => "test_started",
            Point::TestEnded => "test_ended",
            Point::BeforeStore => "before_store",
            Point::AfterStore => "after_store",
            Point::BeforeAck => "before_ack",
        }
    }

    pub fn reach(point: Point, id: Option<&RequestId>) {
        let Some((armed, when)) = ARMED.as_ref().filter(|(armed, _)| armed == name(point)) else { return };
        let starts_with = |prefix: &String| id.is_some_and(|id| id.as_str().starts_with(prefix.as_str()));
        let fatal = match when {
            When::Times(left) => left.fetch_sub(1, Ordering::Relaxed) == 1,
            When::Prefix(prefix) => starts_with(prefix),
            When::Panic(prefix) => {
                assert!(!starts_with(prefix), "failpoint {armed}");
                false
            }
        };
        if fatal && point == Point::TestStarted {
            tokio::spawn(async move {
                tokio::time::sleep(A_MOMENT).await;
                die(armed);
            });
        } else if fatal {
            die(armed);
        }
    }

    fn die(name: &str) {
        eprintln!("failpoint {name}");
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}
