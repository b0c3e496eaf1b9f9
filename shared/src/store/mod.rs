//! Where results are kept: Redis, or memory within one process.
//!
//! [`connect`] is the only place that chooses. The promises on [`ResultStore`] are checked for every backend by one
//! contract suite.

pub mod memory;
mod redis;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use serde::{Deserialize, Serialize};

use crate::address;
use crate::config::StoreSettings;
use crate::request::{Digest, RequestId};
use crate::result::{Attempt, ExecutionResult, ExecutionStatus, TestStatus};

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error(
        "cannot reach {what} at {address}: {reason}. Is it running there, and is store.url (TRIBUNAL_STORE__URL) right?"
    )]
    Unreachable { what: &'static str, address: String, reason: String },
    #[error(
        "Redis at {address} evicts keys (maxmemory-policy {policy}), so results could vanish. \
         Run `redis-cli CONFIG SET maxmemory-policy noeviction`, or set store.allow_eviction if you accept the loss"
    )]
    Evicts { address: String, policy: String },
    /// It is there, but will not: out of memory, a read-only replica, a missing permission.
    #[error("Redis at {address} refused: {reason}")]
    Refused { address: String, reason: String },
    #[error("the store at {address} holds something unreadable under {key}: {reason}")]
    Unreadable { address: String, key: String, reason: String },
    #[error("store.url: {address} is no address of a store; it starts with redis:// or memory://")]
    UnknownScheme { address: String },
    #[error(
        "store.url: {address} asks for TLS, which this build does not have. Use redis:// within a private network, or \
         to a TLS tunnel"
    )]
    NoTls { address: String },
}

/// What the store knows about an id.
#[derive(Debug, Clone, PartialEq)]
pub enum State {
    Unknown,
    Queued,
    Running,
    Done(Box<ExecutionResult>),
}

/// What an id stands for, seen by one who brings a body for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// Nobody used the id before.
    New,
    /// The same body was brought before, but never confirmed as enqueued.
    Unconfirmed,
    /// The same body is enqueued, running or done.
    Accepted,
    /// The id belongs to another body.
    Conflict,
}

/// A worker's hold on a request: the right to run it, for as long as the worker is alive, says that it does, and nobody else
/// took it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    pub worker: String,
    /// Different for every attempt, so that one that was thought dead cannot speak for its successor.
    token: String,
    /// Nothing else runs on that worker.
    alone: bool,
}

impl Lease {
    pub fn new(worker: &str) -> Self {
        Self { worker: worker.into(), token: uuid::Uuid::new_v4().simple().to_string(), alone: false }
    }

    pub fn alone(worker: &str) -> Self {
        Self { alone: true, ..Self::new(worker) }
    }
}

/// What a worker finds that wants to run a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Take {
    /// It is ours to run. 1 for the first attempt.
    Begun { attempt: u32 },
    /// There is a result already.
    Done,
    /// Another worker has it, and lives.
    Elsewhere { worker: String },
    /// Only its last attempt is left, and that is made alone: whoever died with it so far may have died of a neighbour.
    Alone,
    /// It was begun as often as it may be, and nobody runs it.
    Exhausted,
    /// The id belongs to another body.
    Conflict,
}

/// Whether an attempt that came to nothing is held against the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blame {
    Request,
    /// The worker stops, or its whole sandbox is out of order.
    Worker,
}

/// A step on the road of a request, as callers may follow it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    Queued,
    /// A second one means that the first worker was lost and everything after it starts again.
    Running {
        worker: String,
        attempt: u32,
    },
    Compiled {
        time_ms: u64,
    },
    Test {
        index: usize,
        total: usize,
        test_id: String,
        status: TestStatus,
        execution_time_ms: u64,
        memory_used_kb: u64,
    },
    /// The worker could not finish it; it is queued again.
    GivenBack {
        worker: String,
        reason: String,
    },
    Done {
        status: ExecutionStatus,
        summary: String,
    },
}

/// An event with its place in the stream, from which following can be resumed.
#[derive(Debug, Clone, PartialEq)]
pub struct Numbered {
    pub id: String,
    pub event: Event,
}

pub type Events = BoxStream<'static, Result<Numbered, StoreError>>;

/// What a worker says of itself, again and again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkerReport {
    pub name: String,
    pub host: String,
    pub version: String,
    /// The name of the queue that it takes from.
    #[serde(default)]
    pub queue: String,
    pub slots: usize,
    /// Requests in its hands.
    pub running: usize,
    /// Requests that it finished since it started.
    pub done: u64,
    /// Those that it is bound to; empty if it takes all.
    pub languages: Vec<String>,
    /// Those that it has no toolchain for.
    #[serde(default)]
    pub missing: Vec<String>,
    /// Why it takes nothing just now; empty if it does.
    pub unready: String,
}

/// A worker as the store last heard of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WorkerStatus {
    #[serde(flatten)]
    pub report: WorkerReport,
    pub last_heartbeat_ms: u64,
    /// Whether what it holds is still its own.
    pub alive: bool,
}

/// A worker that was not heard of for this long has lost its leases. Long enough for a busy machine, short enough that a
/// dead worker's requests run elsewhere within 5 seconds.
pub const ALIVE_FOR: Duration = Duration::from_secs(2);
/// How often a worker is heard of. A cancelled request stops after this time at the latest.
pub const HEARTBEAT: Duration = Duration::from_millis(400);
/// How long a worker that fell silent is still shown.
const REMEMBERED_FOR: Duration = Duration::from_secs(600);

#[async_trait]
pub trait ResultStore: Send + Sync {
    /// Ties an id to a body. Repeating it is harmless.
    async fn claim(&self, id: &RequestId, digest: &Digest) -> Result<Claim, StoreError> {
        let claims = self.claim_all(&[(id.clone(), digest.clone())]).await?;
        Ok(claims.into_iter().next().unwrap_or(Claim::Conflict))
    }

    /// The same for many, in their order.
    async fn claim_all(&self, claims: &[(RequestId, Digest)]) -> Result<Vec<Claim>, StoreError>;

    /// The queue confirmed the message: the state is `Queued`, unless it is further already. Claims the id, if nobody did:
    /// one that was just made up needs no claim before.
    async fn confirm(&self, id: &RequestId, digest: &Digest) -> Result<(), StoreError> {
        self.confirm_all(&[(id.clone(), digest.clone())]).await
    }

    async fn confirm_all(&self, confirmed: &[(RequestId, Digest)]) -> Result<(), StoreError>;

    /// The queue refused the message: an unconfirmed claim is forgotten.
    async fn release(&self, id: &RequestId) -> Result<(), StoreError>;

    /// Begins an attempt, unless there is a result, a living worker that has it, or no attempt left. It counts the attempt
    /// and appends `Running`. Repeating it with the same lease is harmless.
    async fn take(&self, id: &RequestId, digest: &Digest, lease: &Lease, max_attempts: u32)
    -> Result<Take, StoreError>;

    /// Appends to the id's events. Ignored once there is a result, or another worker has it.
    async fn record(&self, id: &RequestId, lease: &Lease, event: &Event) -> Result<(), StoreError>;

    /// Ends an attempt without a result. Ignored like `record`.
    async fn give_back(&self, id: &RequestId, lease: &Lease, reason: &str, blame: Blame) -> Result<(), StoreError>;

    /// What became of the attempts so far.
    async fn history(&self, id: &RequestId) -> Result<Vec<Attempt>, StoreError>;

    /// Stores the result and the final event in one step, unless there is a result: the first one wins.
    /// Says whether this was the first.
    ///
    /// Who knows the body's digest claims the id with it, in case the claim was lost: a result without a claim is nobody's,
    /// and the same body would be refused as another one.
    async fn put(&self, id: &RequestId, digest: Option<&Digest>, result: &ExecutionResult) -> Result<bool, StoreError>;

    async fn state(&self, id: &RequestId) -> Result<State, StoreError>;

    /// The id's events after `after`, old ones first, then new ones as they come. Ends after `Done`.
    async fn events(&self, id: &RequestId, after: Option<String>) -> Result<Events, StoreError>;

    /// Forgets a request with its result, so that it can be judged anew: an operator's decision. Says whether it did: not if
    /// the id belongs to another body.
    async fn forget(&self, id: &RequestId, digest: &Digest) -> Result<bool, StoreError>;

    /// A worker is alive, and so are its leases of the requests that it runs. Says which of these have a result already.
    async fn beat(&self, report: &WorkerReport, running: &[RequestId]) -> Result<Vec<RequestId>, StoreError>;

    /// A worker has stopped, and holds nothing any more.
    async fn leave(&self, worker: &str) -> Result<(), StoreError>;

    /// Workers that live, or did not long ago, by name.
    async fn workers(&self) -> Result<Vec<WorkerStatus>, StoreError>;
}

/// The store at `settings.url`, reached and found fit to keep results.
pub async fn connect(settings: &StoreSettings) -> Result<Arc<dyn ResultStore>, StoreError> {
    let address = || address::without_credentials(&settings.url);
    match address::scheme(&settings.url) {
        "redis" | "redis+unix" | "unix" => Ok(Arc::new(redis::Redis::connect(settings).await?)),
        "memory" => Ok(Arc::new(memory::MemoryStore::new(settings))),
        "rediss" => Err(StoreError::NoTls { address: address() }),
        _ => Err(StoreError::UnknownScheme { address: address() }),
    }
}

/// The event that every stored result ends its stream with.
fn final_event(result: &ExecutionResult) -> Event {
    Event::Done { status: result.status, summary: result.summary.clone() }
}

/// The attempts that a request's events tell of. One that ended without a word was its worker's last.
fn attempts<'a>(events: impl IntoIterator<Item = &'a Event>) -> Vec<Attempt> {
    let mut attempts: Vec<Attempt> = Vec::new();
    for event in events {
        match event {
            Event::Running { worker, attempt } => {
                attempts.push(Attempt { attempt: *attempt, worker: worker.clone(), end: "its worker died".into() });
            }
            Event::GivenBack { reason, .. } => {
                if let Some(last) = attempts.last_mut() {
                    last.end.clone_from(reason);
                }
            }
            Event::Queued | Event::Compiled { .. } | Event::Test { .. } | Event::Done { .. } => {}
        }
    }
    attempts
}
