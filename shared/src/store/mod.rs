//! Where results are kept: Redis, or memory within one process.
//!
//! [`connect`] is the only place that chooses. The promises on [`ResultStore`] are checked for every backend by one
//! contract suite.

pub mod memory;
mod redis;

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use serde::{Deserialize, Serialize};

use crate::address;
use crate::config::StoreSettings;
use crate::request::{Digest, RequestId};
use crate::result::{ExecutionResult, ExecutionStatus, TestStatus};

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

#[async_trait]
pub trait ResultStore: Send + Sync {
    /// Ties an id to a body. Repeating it is harmless.
    async fn claim(&self, id: &RequestId, digest: &Digest) -> Result<Claim, StoreError>;

    /// The queue confirmed the message: the state is `Queued`, unless it is further already.
    async fn confirm(&self, id: &RequestId) -> Result<(), StoreError>;

    /// The queue refused the message: an unconfirmed claim is forgotten.
    async fn release(&self, id: &RequestId) -> Result<(), StoreError>;

    /// Appends to the id's events; `Running` also changes its state. Ignored once there is a result.
    async fn record(&self, id: &RequestId, event: &Event) -> Result<(), StoreError>;

    /// How often the request was begun: the `Running` events that were recorded.
    async fn starts(&self, id: &RequestId) -> Result<u32, StoreError>;

    /// Stores the result and the final event in one step, unless there is a result: the first one wins.
    /// Says whether this was the first.
    async fn put(&self, id: &RequestId, result: &ExecutionResult) -> Result<bool, StoreError>;

    async fn state(&self, id: &RequestId) -> Result<State, StoreError>;

    /// The id's events after `after`, old ones first, then new ones as they come. Ends after `Done`.
    async fn events(&self, id: &RequestId, after: Option<String>) -> Result<Events, StoreError>;
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
