//! A store within one process, for the embedded mode.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::{StreamExt, stream};
use tokio::sync::watch;
use tokio::time::Instant;

use super::{Claim, Event, Events, Numbered, ResultStore, State, StoreError, final_event};
use crate::config::StoreSettings;
use crate::request::{Digest, RequestId};
use crate::result::ExecutionResult;

pub struct MemoryStore {
    entries: Arc<Mutex<HashMap<RequestId, Entry>>>,
    ttl: Duration,
}

struct Entry {
    digest: Option<Digest>,
    confirmed: bool,
    /// How often it was begun.
    starts: u32,
    result: Option<ExecutionResult>,
    /// Also wakes those who follow.
    events: watch::Sender<Vec<Event>>,
    expires: Instant,
}

impl Entry {
    /// Whether the queue or a worker has it, or had it.
    fn used(&self) -> bool {
        self.confirmed || self.starts > 0 || self.result.is_some()
    }
}

impl MemoryStore {
    pub fn new(settings: &StoreSettings) -> Self {
        Self { entries: Arc::default(), ttl: Duration::from_secs(settings.result_ttl_s) }
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<RequestId, Entry>> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        entries.retain(|_, entry| entry.expires > now);
        entries
    }

    /// Every touch of an entry lengthens its life.
    fn with<T>(&self, id: &RequestId, change: impl FnOnce(&mut Entry) -> T) -> T {
        let mut entries = self.entries();
        let entry = entries.entry(id.clone()).or_insert_with(|| Entry {
            digest: None,
            confirmed: false,
            starts: 0,
            result: None,
            events: watch::Sender::new(Vec::new()),
            expires: Instant::now(),
        });
        entry.expires = Instant::now() + self.ttl;
        change(entry)
    }
}

#[async_trait]
impl ResultStore for MemoryStore {
    async fn claim(&self, id: &RequestId, digest: &Digest) -> Result<Claim, StoreError> {
        Ok(self.with(id, |entry| match &entry.digest {
            Some(known) if known != digest => Claim::Conflict,
            Some(_) if entry.used() => Claim::Accepted,
            Some(_) => Claim::Unconfirmed,
            None if entry.result.is_some() => Claim::Conflict,
            None => {
                entry.digest = Some(digest.clone());
                if entry.used() { Claim::Accepted } else { Claim::New }
            }
        }))
    }

    async fn confirm(&self, id: &RequestId) -> Result<(), StoreError> {
        self.with(id, |entry| {
            if !entry.confirmed && entry.result.is_none() && entry.starts == 0 {
                entry.events.send_modify(|events| events.push(Event::Queued));
            }
            entry.confirmed = true;
        });
        Ok(())
    }

    async fn release(&self, id: &RequestId) -> Result<(), StoreError> {
        let mut entries = self.entries();
        if let Some(entry) = entries.get_mut(id).filter(|entry| !entry.used()) {
            entry.digest = None;
        }
        Ok(())
    }

    async fn record(&self, id: &RequestId, event: &Event) -> Result<(), StoreError> {
        self.with(id, |entry| {
            if entry.result.is_none() {
                entry.starts += u32::from(matches!(event, Event::Running { .. }));
                entry.events.send_modify(|events| events.push(event.clone()));
            }
        });
        Ok(())
    }

    async fn starts(&self, id: &RequestId) -> Result<u32, StoreError> {
        Ok(self.entries().get(id).map_or(0, |entry| entry.starts))
    }

    async fn put(&self, id: &RequestId, result: &ExecutionResult) -> Result<bool, StoreError> {
        Ok(self.with(id, |entry| {
            let first = entry.result.is_none();
            if first {
                entry.result = Some(result.clone());
                entry.events.send_modify(|events| events.push(final_event(result)));
            }
            first
        }))
    }

    async fn state(&self, id: &RequestId) -> Result<State, StoreError> {
        Ok(match self.entries().get(id) {
            Some(Entry { result: Some(result), .. }) => State::Done(Box::new(result.clone())),
            Some(Entry { starts: 1.., .. }) => State::Running,
            Some(Entry { confirmed: true, .. }) => State::Queued,
            _ => State::Unknown,
        })
    }

    async fn events(&self, id: &RequestId, after: Option<String>) -> Result<Events, StoreError> {
        let seen = after.and_then(|id| id.parse::<usize>().ok()).unwrap_or(0);
        let follower = self.with(id, |entry| entry.events.subscribe());
        let events = stream::unfold((follower, seen, false), |(mut follower, seen, done)| async move {
            if done {
                return None;
            }
            // Fails when the entry expired: there is nothing more to follow.
            let event = follower.wait_for(|events| events.len() > seen).await.ok()?[seen].clone();
            let done = matches!(event, Event::Done { .. });
            let seen = seen + 1;
            Some((Ok(Numbered { id: seen.to_string(), event }), (follower, seen, done)))
        });
        Ok(events.boxed())
    }
}
