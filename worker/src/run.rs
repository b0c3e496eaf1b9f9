//! The worker's loop, and the life of one delivery.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tracing::{Instrument, error, info, info_span, warn};
use tribunal_shared::config::Settings;
use tribunal_shared::language::Languages;
use tribunal_shared::queue::{Broker, Consumer, Delivery, EXECUTION_REQUEST};
use tribunal_shared::request::{Digest, ExecutionRequest, Job, Malformed, RequestId};
use tribunal_shared::result::ExecutionResult;
use tribunal_shared::retry::Delays;
use tribunal_shared::store::{Claim, Event, ResultStore, State, StoreError};
use tribunal_shared::suspicion::suspicions;

use crate::judge::Judge;
use crate::sandbox::{Sandbox, SandboxError};

/// What goes wrong for one reason often goes wrong again at once; each attempt waits longer before the next.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// What a worker is made of.
pub struct Parts {
    pub broker: Arc<dyn Broker>,
    pub store: Arc<dyn ResultStore>,
    pub sandbox: Arc<dyn Sandbox>,
    pub settings: Settings,
    /// As others see this worker.
    pub name: String,
}

/// Takes and judges requests until `shutdown`, then finishes what runs within the grace period and gives back the rest.
pub async fn run(parts: Parts, shutdown: impl Future<Output = ()>) {
    let slot_count = parts.settings.worker.slots();
    let grace = Duration::from_secs(parts.settings.worker.grace_s);
    let languages = parts.settings.languages();
    let slots = Semaphore::new(slot_count);
    let worker = Arc::new(Worker { slots, slot_count, languages, turns: Turns::default(), parts });
    info!(worker = worker.parts.name, slots = slot_count, "taking requests");

    let mut shutdown = std::pin::pin!(shutdown);
    let mut running = JoinSet::new();
    let mut source = Source { worker: Arc::clone(&worker), consumer: None, careful: false, sole: None };
    loop {
        tokio::select! {
            () = &mut shutdown => break,
            // Not more than there are slots, also when a new connection brings again what still runs from the old one.
            delivery = source.next(), if running.len() < slot_count => {
                let task = running.spawn(Arc::clone(&worker).run_one(delivery));
                source.took(task.id());
            }
            Some(ended) = running.join_next_with_id() => {
                source.ended(match ended {
                    Ok((task, ())) => task,
                    Err(panic) => {
                        // A bug of ours. The delivery was dropped, and so given back.
                        error!(%panic, "a request brought its task down");
                        panic.id()
                    }
                });
            }
        }
    }

    info!(running = running.len(), "stopping");
    source.stop().await;
    if tokio::time::timeout(grace, async { while running.join_next().await.is_some() {} }).await.is_err() {
        warn!(running = running.len(), "the grace period is over: what still runs goes back to the queue");
    }
    running.shutdown().await;
    worker.parts.sandbox.settle().await;
    info!("stopped");
}

/// Deliveries, across lost connections.
struct Source {
    worker: Arc<Worker>,
    consumer: Option<Box<dyn Consumer>>,
    /// A lost connection may have broken on a message that our client cannot read. The next one takes messages singly, so
    /// that only that one message is delivered again and again, until the broker gives it up, and its neighbours are not.
    careful: bool,
    /// The task of the message that was taken singly.
    sole: Option<tokio::task::Id>,
}

impl Source {
    async fn next(&mut self) -> Delivery {
        let mut delays = Delays::new(Duration::from_millis(200), Duration::from_secs(10));
        loop {
            let next = match &mut self.consumer {
                Some(consumer) => consumer.next().await,
                None => match self.worker.parts.broker.consume(if self.careful { 1 } else { self.prefetch() }).await {
                    Ok(consumer) => {
                        info!("connected to the queue");
                        self.consumer = Some(consumer);
                        delays.reset();
                        continue;
                    }
                    Err(error) => Err(error),
                },
            };
            match next {
                Ok(delivery) => return delivery,
                Err(error) => {
                    warn!(%error, "no requests can be taken; connecting again");
                    self.careful |= self.consumer.take().is_some();
                    self.sole = None;
                    tokio::time::sleep(delays.next_delay()).await;
                }
            }
        }
    }

    fn took(&mut self, task: tokio::task::Id) {
        self.sole = self.careful.then_some(task);
    }

    /// A message was read and settled: there is no more need for care. Nothing else is unsettled on this connection.
    fn ended(&mut self, task: tokio::task::Id) {
        if self.sole == Some(task) {
            (self.careful, self.sole, self.consumer) = (false, None, None);
        }
    }

    /// As many requests as can have a slot: more would only wait here instead of elsewhere.
    fn prefetch(&self) -> u16 {
        u16::try_from(self.worker.slot_count).unwrap_or(u16::MAX)
    }

    async fn stop(&mut self) {
        if let Some(consumer) = &mut self.consumer {
            consumer.stop().await;
        }
    }
}

struct Worker {
    parts: Parts,
    languages: Languages,
    slots: Semaphore,
    slot_count: usize,
    turns: Turns,
}

/// One at a time for each id. A request that is delivered again while it still runs here, after a lost connection, waits
/// for the result instead of running twice.
#[derive(Default)]
struct Turns(Mutex<HashMap<RequestId, Arc<tokio::sync::Mutex<()>>>>);

impl Turns {
    async fn take(&self, id: &RequestId) -> tokio::sync::OwnedMutexGuard<()> {
        let turn = {
            let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // Only the map itself knows of those that are over.
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
            Arc::clone(turns.entry(id.clone()).or_default())
        };
        turn.lock_owned().await
    }
}

/// How a delivery ends.
enum End {
    /// Its result is stored.
    Ack,
    /// Not a request that can ever be judged.
    DeadLetter,
    /// We failed; somebody should try again.
    GiveBack,
}

impl Worker {
    async fn run_one(self: Arc<Self>, delivery: Delivery) {
        let limit = self.parts.settings.limits.max_request_bytes;
        let request = ExecutionRequest::from_json_within(&delivery.body, limit);
        let id = id_of(&delivery, &request);
        let span = info_span!("request", id = id.as_ref().map(RequestId::as_str), delivery = delivery.attempt);
        async {
            let end = match id {
                _ if delivery.kind.as_deref().is_some_and(|kind| kind != EXECUTION_REQUEST) => {
                    warn!("a message of a kind this worker does not know");
                    End::DeadLetter
                }
                None => {
                    warn!("a message without a usable request id");
                    End::DeadLetter
                }
                Some(id) => {
                    let _turn = self.turns.take(&id).await;
                    self.answer(&id, Digest::of(&delivery.body), request).await
                }
            };
            let settled = match end {
                End::Ack => delivery.ack().await,
                End::DeadLetter => delivery.dead_letter().await,
                End::GiveBack => delivery.give_back().await,
            };
            if let Err(error) = settled {
                // Delivered again, and then acked without running: the result is there.
                info!(%error, "a delivery could not be settled");
            }
        }
        .instrument(span)
        .await;
    }

    /// Sees to it that there is a result under the id, unless the id is somebody else's.
    async fn answer(&self, id: &RequestId, digest: Digest, request: Result<ExecutionRequest, Malformed>) -> End {
        match insist("claiming the id", || self.parts.store.claim(id, &digest)).await {
            Claim::New | Claim::Unconfirmed => {}
            Claim::Accepted => {
                if let State::Done(_) = insist("looking for a result", || self.parts.store.state(id)).await {
                    info!("judged already");
                    return End::Ack;
                }
            }
            Claim::Conflict => {
                warn!("another request has the same id");
                return End::DeadLetter;
            }
        }
        let mut request = match request {
            Ok(request) => request,
            Err(malformed) => {
                // Not the message: it may quote what it found.
                warn!(field = malformed.field, "a malformed message");
                self.store(id, &ExecutionResult::invalid(id, &malformed.to_string())).await;
                return End::DeadLetter;
            }
        };
        request.request_id.get_or_insert_with(|| id.to_string());
        let job = match Job::check(request, &self.parts.settings.limits, &self.languages) {
            Ok(job) => job,
            Err(rejection) => {
                info!("not a valid request");
                self.store(id, &ExecutionResult::rejected(id, &rejection)).await;
                return End::Ack;
            }
        };
        // Counted where they begin, and not in deliveries: many of those come to nothing through no fault of the request.
        let max_attempts = self.parts.settings.worker.max_attempts;
        let attempt = 1 + insist("counting attempts", || self.parts.store.starts(id)).await;
        if attempt > max_attempts {
            return self.give_up(id, max_attempts, "its workers died").await;
        }
        let running = Event::Running { worker: self.parts.name.clone(), attempt };
        insist("recording the start", || self.parts.store.record(id, &running)).await;
        let suspicious = suspicions(job.language(), job.code());
        if !suspicious.is_empty() {
            info!(?suspicious, "patterns in the code");
        }

        match self.judge(&job).await {
            Ok(result) => {
                info!(
                    language = job.language().name(),
                    status = result.status.as_str(),
                    ms = result.total_time_ms,
                    "judged"
                );
                self.store(id, &result).await;
                End::Ack
            }
            Err(error) if attempt >= max_attempts => self.give_up(id, attempt, &error.to_string()).await,
            Err(error) => {
                warn!(%error, "our failure; to be tried again");
                tokio::time::sleep(RETRY_AFTER * attempt).await;
                End::GiveBack
            }
        }
    }

    async fn judge(&self, job: &Job) -> Result<ExecutionResult, SandboxError> {
        let (progress, mut events) = mpsc::unbounded_channel();
        let judge = Judge {
            sandbox: &*self.parts.sandbox,
            settings: &self.parts.settings.sandbox,
            slots: &self.slots,
            slot_count: self.slot_count,
        };
        let judged = async {
            let result = judge.judge(job, &progress).await;
            drop(progress);
            result
        };
        // Beside the tests, not between them. Whoever follows misses an event if the store is away; nothing else does.
        let recorded = async {
            while let Some(event) = events.recv().await {
                if let Err(error) = self.parts.store.record(job.id(), &event).await {
                    warn!(%error, "an event was not recorded");
                }
            }
        };
        tokio::join!(judged, recorded).0
    }

    async fn give_up(&self, id: &RequestId, attempts: u32, reason: &str) -> End {
        error!(attempts, reason, "given up");
        self.store(id, &ExecutionResult::gave_up(id, attempts, reason)).await;
        End::DeadLetter
    }

    /// Returns when the result is stored: only then may the delivery be settled.
    async fn store(&self, id: &RequestId, result: &ExecutionResult) {
        if !insist("storing the result", || self.parts.store.put(id, result)).await {
            info!("another worker was first");
        }
    }
}

/// The request's own id, or else the message's.
fn id_of(delivery: &Delivery, request: &Result<ExecutionRequest, Malformed>) -> Option<RequestId> {
    let own = match request {
        Ok(request) => request.request_id.as_deref().map(|id| id.parse().ok()),
        Err(malformed) => malformed.request_id.clone().map(Some),
    };
    own.unwrap_or_else(|| delivery.message_id.as_deref()?.parse().ok())
}

/// Until the store answers. Meanwhile the request stays unsettled and its slot taken, so nothing new comes in.
async fn insist<'a, T>(doing: &'static str, ask: impl Fn() -> BoxFuture<'a, Result<T, StoreError>>) -> T {
    let mut delays = Delays::new(Duration::from_millis(100), Duration::from_secs(5));
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(error) => {
                warn!(%error, doing, "the store does not answer; asking again");
                tokio::time::sleep(delays.next_delay()).await;
            }
        }
    }
}
