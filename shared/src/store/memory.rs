//! A store within one process, for the embedded mode.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::{StreamExt, stream};
use tokio::sync::watch;
use tokio::time::Instant;

use super::{
    ALIVE_FOR, Blame, Claim, Event, Events, Lease, Numbered, REMEMBERED_FOR, ResultStore, State, StoreError, Take,
    WorkerReport, WorkerStatus, attempts, final_event,
};
use crate::config::StoreSettings;
use crate::request::{Digest, RequestId};
use crate::result::{Attempt, ExecutionResult};

pub struct MemoryStore {
    entries: Arc<Mutex<HashMap<RequestId, Entry>>>,
    workers: Mutex<BTreeMap<String, (WorkerReport, Instant)>>,
    ttl: Duration,
}

struct Entry {
    digest: Option<Digest>,
    confirmed: bool,
    /// How often it was begun.
    starts: u32,
    /// Who runs it, or ran it last, and when it last said so.
    lease: Option<Lease>,
    heard: Instant,
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

    fn is_held_by(&self, lease: &Lease) -> bool {
        self.result.is_none() && self.lease.as_ref() == Some(lease)
    }

    fn tell(&self, event: Event) {
        self.events.send_modify(|events| events.push(event));
    }
}

impl MemoryStore {
    pub fn new(settings: &StoreSettings) -> Self {
        Self { entries: Arc::default(), workers: Mutex::default(), ttl: Duration::from_secs(settings.result_ttl_s) }
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<RequestId, Entry>> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        entries.retain(|_, entry| entry.expires > now);
        entries
    }

    fn workers(&self) -> MutexGuard<'_, BTreeMap<String, (WorkerReport, Instant)>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_alive(&self, worker: &str) -> bool {
        self.workers().get(worker).is_some_and(|(_, heard)| heard.elapsed() < ALIVE_FOR)
    }

    /// Every touch of an entry lengthens its life.
    fn with<T>(&self, id: &RequestId, change: impl FnOnce(&mut Entry) -> T) -> T {
        let mut entries = self.entries();
        let entry = entries.entry(id.clone()).or_insert_with(|| Entry {
            digest: None,
            confirmed: false,
            starts: 0,
            lease: None,
            heard: Instant::now(),
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
    async fn claim_all(&self, claims: &[(RequestId, Digest)]) -> Result<Vec<Claim>, StoreError> {
        let claim = |(id, digest): &(RequestId, Digest)| {
            self.with(id, |entry| match &entry.digest {
                Some(known) if known != digest => Claim::Conflict,
                Some(_) if entry.used() => Claim::Accepted,
                Some(_) => Claim::Unconfirmed,
                None if entry.result.is_some() => Claim::Conflict,
                None => {
                    entry.digest = Some(digest.clone());
                    if entry.used() { Claim::Accepted } else { Claim::New }
                }
            })
        };
        Ok(claims.iter().map(claim).collect())
    }

    async fn confirm_all(&self, confirmed: &[(RequestId, Digest)]) -> Result<(), StoreError> {
        for (id, digest) in confirmed {
            self.with(id, |entry| {
                if !entry.used() {
                    entry.digest.get_or_insert_with(|| digest.clone());
                    entry.tell(Event::Queued);
                }
                entry.confirmed = true;
            });
        }
        Ok(())
    }

    async fn release(&self, id: &RequestId) -> Result<(), StoreError> {
        let mut entries = self.entries();
        if let Some(entry) = entries.get_mut(id).filter(|entry| !entry.used()) {
            entry.digest = None;
        }
        Ok(())
    }

    async fn take(
        &self,
        id: &RequestId,
        digest: &Digest,
        lease: &Lease,
        max_attempts: u32,
    ) -> Result<Take, StoreError> {
        Ok(self.with(id, |entry| {
            let same = entry.digest.as_ref().map(|known| known == digest);
            if entry.result.is_some() {
                return if same == Some(true) { Take::Done } else { Take::Conflict };
            }
            if same == Some(false) {
                return Take::Conflict;
            }
            match &entry.lease {
                Some(held) if held == lease => return Take::Begun { attempt: entry.starts },
                Some(held)
                    if held.worker != lease.worker
                        && entry.heard.elapsed() < ALIVE_FOR
                        && self.is_alive(&held.worker) =>
                {
                    return Take::Elsewhere { worker: held.worker.clone() };
                }
                _ => {}
            }
            if entry.starts >= max_attempts {
                return Take::Exhausted;
            }
            if entry.starts > 0 && entry.starts + 1 == max_attempts && !lease.alone {
                return Take::Alone;
            }
            entry.starts += 1;
            entry.confirmed = true;
            entry.digest = Some(digest.clone());
            (entry.lease, entry.heard) = (Some(lease.clone()), Instant::now());
            entry.tell(Event::Running { worker: lease.worker.clone(), attempt: entry.starts });
            Take::Begun { attempt: entry.starts }
        }))
    }

    async fn record(&self, id: &RequestId, lease: &Lease, event: &Event) -> Result<(), StoreError> {
        self.with(id, |entry| {
            if entry.is_held_by(lease) {
                entry.tell(event.clone());
            }
        });
        Ok(())
    }

    async fn give_back(&self, id: &RequestId, lease: &Lease, reason: &str, blame: Blame) -> Result<(), StoreError> {
        self.with(id, |entry| {
            if entry.is_held_by(lease) {
                entry.lease = None;
                entry.starts -= u32::from(blame == Blame::Worker);
                entry.tell(Event::GivenBack { worker: lease.worker.clone(), reason: reason.into() });
            }
        });
        Ok(())
    }

    async fn history(&self, id: &RequestId) -> Result<Vec<Attempt>, StoreError> {
        Ok(self.entries().get(id).map_or_else(Vec::new, |entry| attempts(&*entry.events.borrow())))
    }

    async fn put(&self, id: &RequestId, digest: Option<&Digest>, result: &ExecutionResult) -> Result<bool, StoreError> {
        Ok(self.with(id, |entry| {
            let first = entry.result.is_none();
            if first {
                entry.digest = entry.digest.take().or_else(|| digest.cloned());
                entry.result = Some(result.clone());
                entry.tell(final_event(result));
            }
            first
        }))
    }

    async fn state(&self, id: &RequestId) -> Result<State, StoreError> {
        Ok(match self.entries().get(id) {
            Some(Entry { result: Some(result), .. }) => State::Done(Box::new(result.clone())),
            Some(Entry { lease: Some(_), .. }) => State::Running,
            Some(Entry { confirmed: true, .. }) => State::Queued,
            _ => State::Unknown,
        })
    }

    async fn events(&self, id: &RequestId, after: Option<String>) -> Result<Events, StoreError> {
        let follower = self.with(id, |entry| entry.events.subscribe());
        let seen = after.and_then(|id| id.parse::<usize>().ok()).unwrap_or(0);
        // What was seen is more than there is: it was forgotten meanwhile, and everything begins again.
        let seen = if seen > follower.borrow().len() { 0 } else { seen };
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

    async fn forget(&self, id: &RequestId, digest: &Digest) -> Result<bool, StoreError> {
        let mut entries = self.entries();
        if entries.get(id).and_then(|entry| entry.digest.as_ref()).is_some_and(|known| known != digest) {
            return Ok(false);
        }
        entries.remove(id);
        Ok(true)
    }

    async fn beat(&self, report: &WorkerReport, running: &[RequestId]) -> Result<Vec<RequestId>, StoreError> {
        self.workers().insert(report.name.clone(), (report.clone(), Instant::now()));
        let mut entries = self.entries();
        let mut is_done = |id: &&RequestId| match entries.get_mut(*id) {
            Some(entry) if entry.result.is_none() => {
                if entry.lease.as_ref().is_some_and(|lease| lease.worker == report.name) {
                    (entry.expires, entry.heard) = (Instant::now() + self.ttl, Instant::now());
                }
                false
            }
            entry => entry.is_some(),
        };
        Ok(running.iter().filter(|id| is_done(id)).cloned().collect())
    }

    async fn leave(&self, worker: &str) -> Result<(), StoreError> {
        self.workers().remove(worker);
        Ok(())
    }

    async fn workers(&self) -> Result<Vec<WorkerStatus>, StoreError> {
        let mut workers = self.workers();
        workers.retain(|_, (_, heard)| heard.elapsed() < REMEMBERED_FOR);
        let status = |(report, heard): &(WorkerReport, Instant)| WorkerStatus {
            report: report.clone(),
            last_heartbeat_ms: heard.elapsed().as_millis() as u64,
            alive: heard.elapsed() < ALIVE_FOR,
        };
        Ok(workers.values().map(status).collect())
    }
}
