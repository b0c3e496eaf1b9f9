//! The life of one delivery: from the queue, through the judge, to the stored result.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, error, info, info_span, warn};
use tribunal_shared::language::Languages;
use tribunal_shared::queue::{DeadLetter, Delivery, is_known};
use tribunal_shared::request::{Digest, ExecutionRequest, Job, Malformed, RequestId};
use tribunal_shared::result::{Attempt, ExecutionResult};
use tribunal_shared::retry::Delays;
use tribunal_shared::store::{Blame, Claim, HEARTBEAT, Lease, State, StoreError, Take};
use tribunal_shared::suspicion::suspicions;

use crate::failpoint::{self, Point};
use crate::health::Part;
use crate::judge::Judge;
use crate::metrics;
use crate::run::Parts;
use crate::sandbox::SandboxError;
use crate::slots::Slots;
use crate::turns::{Company, Presence, Turns};
use crate::{spans, toolchains};

/// What goes wrong for one reason often goes wrong again at once; each attempt waits twice as long before the next.
const RETRY_AFTER: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

pub struct Worker {
    pub parts: Parts,
    pub slots: Slots,
    /// No more is begun; what runs goes on.
    pub draining: CancellationToken,
    /// What runs stops as well.
    pub halting: CancellationToken,
    languages: Languages,
    turns: Turns,
    company: Company,
}

/// How a delivery ends.
enum End {
    /// Its result is stored, or it never gets one of ours.
    Ack,
    /// We failed; somebody should try again.
    GiveBack,
    /// It is never to be tried again; its id gets this result.
    Bury { id: RequestId, reason: String, attempts: Vec<Attempt>, result: Box<ExecutionResult> },
    /// Neither is this, and it has no id of its own that could get a result.
    Nobodys { reason: &'static str },
}

impl Worker {
    pub fn new(parts: Parts) -> Self {
        Self {
            slots: Slots::new(parts.settings.worker.slots()),
            draining: CancellationToken::new(),
            halting: CancellationToken::new(),
            languages: parts.settings.languages(),
            turns: Turns::default(),
            company: Company::default(),
            parts,
        }
    }

    pub async fn run_one(self: Arc<Self>, delivery: Delivery) {
        let limit = self.parts.settings.limits.max_request_bytes;
        let request = ExecutionRequest::from_json_within(&delivery.body, limit);
        let id = id_of(&delivery, &request);
        let trace = delivery.traceparent.as_deref().and_then(trace_id);
        let span = info_span!("request", id = id.as_ref().map(RequestId::as_str), delivery = delivery.attempt, trace);
        spans::join(&span, delivery.traceparent.as_deref());
        async {
            failpoint::reach(Point::Received, id.as_ref());
            if delivery.attempt > 1 {
                metrics::redelivered();
            }
            if !is_known(delivery.kind.as_deref()) {
                return self.park(delivery).await;
            }
            let end = match &id {
                None => {
                    warn!("a message without a usable request id");
                    End::Nobodys { reason: "it has no usable request id" }
                }
                Some(id) => {
                    let _turn = self.turns.take(id).await;
                    let digest = Digest::of(&delivery.body);
                    if delivery.fallen {
                        self.answer_fallen(id, &digest).await
                    } else {
                        self.answer(id, &digest, request, &delivery).await
                    }
                }
            };
            failpoint::reach(Point::BeforeAck, id.as_ref());
            self.settle(delivery, end).await;
        }
        .instrument(span)
        .await;
    }

    async fn settle(&self, delivery: Delivery, end: End) {
        let settled = match end {
            End::Ack => delivery.ack().await,
            End::GiveBack => delivery.give_back().await,
            End::Bury { id, reason, attempts, result } => {
                // In this order: a crash in between makes a second dead letter, but never loses the first.
                self.bury(DeadLetter::of(&delivery, Some(&id), &reason, attempts)).await;
                self.store(&id, &Digest::of(&delivery.body), &result).await;
                delivery.ack().await
            }
            End::Nobodys { reason } => {
                self.bury(DeadLetter::of(&delivery, None, reason, Vec::new())).await;
                delivery.ack().await
            }
        };
        if let Err(error) = settled {
            // Delivered again, and then acked without running: the result is there.
            info!(%error, "a delivery could not be settled");
        }
    }

    async fn bury(&self, letter: DeadLetter) {
        insist("burying a message", || self.parts.broker.bury(&letter)).await;
        metrics::buried();
    }

    /// For a worker of a newer version.
    async fn park(&self, delivery: Delivery) {
        warn!("a message of a kind this version does not know; it is parked");
        insist("parking a message", || Box::pin(self.parts.broker.park(&delivery))).await;
        if let Err(error) = delivery.ack().await {
            info!(%error, "a delivery could not be settled");
        }
    }

    /// Sees to it that there is a result under the id, unless the id is somebody else's.
    async fn answer(
        &self,
        id: &RequestId,
        digest: &Digest,
        request: Result<ExecutionRequest, Malformed>,
        delivery: &Delivery,
    ) -> End {
        let began = Instant::now();
        let job = match self.check(id, request) {
            Ok(job) => job,
            Err(refusal) => return self.refuse(id, digest, refusal).await,
        };
        let language = job.language().name();
        let Begun { lease, attempt, _presence } = match self.begin(id, digest).await {
            Ok(begun) => begun,
            Err(end) => return end,
        };
        failpoint::reach(Point::Claimed, Some(id));
        if let (1, Some(published_ms)) = (delivery.attempt, delivery.published_ms) {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            metrics::waited(language, now.saturating_sub(Duration::from_millis(published_ms)));
        }
        let suspicious = suspicions(job.language(), job.code());
        if !suspicious.is_empty() {
            info!(?suspicious, "patterns in the code");
        }

        let running = self.parts.pulse.runs(id);
        let judged = tokio::select! {
            // A bug of ours must not keep the lease, and with it the request, from everybody for as long as we live.
            judged = AssertUnwindSafe(self.judge(&job, &lease)).catch_unwind() => {
                judged.unwrap_or_else(|_| Err(SandboxError::failed("judging", "the worker panicked; its log says where")))
            }
            () = running.settled() => {
                info!("it has a result already: cancelled, or judged elsewhere");
                metrics::cancelled();
                return End::Ack;
            }
            () = self.halting.cancelled() => {
                return self.give_back(id, &lease, "its worker was stopped", Blame::Worker).await;
            }
        };
        match judged {
            Ok(result) => {
                self.parts.toolchains.found(language);
                info!(language, status = result.status.as_str(), ms = result.total_time_ms, "judged");
                failpoint::reach(Point::BeforeStore, Some(id));
                self.store(id, digest, &result).await;
                failpoint::reach(Point::AfterStore, Some(id));
                metrics::judged(language, &result, began.elapsed());
                self.parts.pulse.finished();
                End::Ack
            }
            Err(error @ SandboxError::Unfit { .. }) if self.is_elsewhere(language).await => {
                self.pass_on(id, &lease, delivery.attempt, &error).await
            }
            Err(error) => self.failed(id, &lease, attempt, &error).await,
        }
    }

    fn check(&self, id: &RequestId, request: Result<ExecutionRequest, Malformed>) -> Result<Job, Refusal> {
        let mut request = request.map_err(|malformed| Refusal {
            result: Box::new(ExecutionResult::invalid(id, &malformed.to_string())),
            malformed: Some(malformed.field),
        })?;
        request.request_id.get_or_insert_with(|| id.to_string());
        Job::check(request, &self.parts.settings.limits, &self.languages).map_err(|rejection| Refusal {
            result: Box::new(ExecutionResult::rejected(id, &rejection)),
            malformed: None,
        })
    }

    /// Answers what can never be judged. What is no request at all is also kept for a person to look at.
    async fn refuse(&self, id: &RequestId, digest: &Digest, Refusal { result, malformed }: Refusal) -> End {
        match insist("claiming the id", || self.parts.store.claim(id, digest)).await {
            Claim::New | Claim::Unconfirmed => {}
            Claim::Accepted => {
                if self.has_result(id).await {
                    info!("answered already");
                    return End::Ack;
                }
            }
            Claim::Conflict => return conflict(),
        }
        match malformed {
            Some(field) => {
                // Not the message: it may quote what it found.
                warn!(field, "a malformed message");
                let reason = format!("it is no request: {field} is wrong");
                End::Bury { id: id.clone(), reason, attempts: Vec::new(), result }
            }
            None => {
                info!("not a valid request");
                self.store(id, digest, &result).await;
                End::Ack
            }
        }
    }

    /// Returns once it is ours to run, or if it never will be.
    async fn begin(&self, id: &RequestId, digest: &Digest) -> Result<Begun<'_>, End> {
        let max_attempts = self.parts.settings.worker.max_attempts;
        let mut lease = Lease::new(&self.parts.name);
        let (mut alone, mut told) = (false, false);
        loop {
            let presence = tokio::select! {
                biased;
                () = self.draining.cancelled() => return Err(End::GiveBack),
                presence = self.company.join(alone) => presence,
            };
            match insist("taking a request", || self.parts.store.take(id, digest, &lease, max_attempts)).await {
                Take::Begun { attempt } => return Ok(Begun { lease, attempt, _presence: presence }),
                Take::Alone => {
                    info!("its last attempt, alone");
                    (lease, alone) = (Lease::alone(&self.parts.name), true);
                }
                Take::Done => {
                    info!("judged already");
                    return Err(End::Ack);
                }
                Take::Conflict => return Err(conflict()),
                Take::Exhausted => return Err(self.give_up(id).await),
                Take::Elsewhere { worker } => {
                    if !told {
                        info!(worker, "it runs elsewhere; waiting for its result, or for that worker's end");
                        told = true;
                    }
                    drop(presence);
                    tokio::select! {
                        () = tokio::time::sleep(HEARTBEAT) => {}
                        () = self.draining.cancelled() => return Err(End::GiveBack),
                    }
                }
            }
        }
    }

    async fn judge(&self, job: &Job, lease: &Lease) -> Result<ExecutionResult, SandboxError> {
        let (progress, mut events) = mpsc::unbounded_channel();
        let judge = Judge { sandbox: &*self.parts.sandbox, settings: &self.parts.settings.sandbox, slots: &self.slots };
        let judged = async {
            let result = judge.judge(job, &progress).await;
            drop(progress);
            result
        };
        // Beside the tests, not between them. Whoever follows misses an event if the store is away; nothing else does.
        let recorded = async {
            while let Some(event) = events.recv().await {
                if let Err(error) = self.parts.store.record(job.id(), lease, &event).await {
                    warn!(%error, "an event was not recorded");
                }
            }
        };
        tokio::join!(judged, recorded).0
    }

    /// Whether another worker has the toolchain that we have not.
    async fn is_elsewhere(&self, language: &str) -> bool {
        let Parts { store, settings, name, toolchains, .. } = &self.parts;
        toolchains.missed(language);
        let workers = insist("looking for other workers", || store.workers()).await;
        toolchains::is_elsewhere(language, name, &settings.queue.name, &workers)
    }

    /// To a worker that can judge it. That we cannot is not held against it; but as long as the others are busy, it comes back
    /// to us, so it is kept here for a while each time. The broker gives it up after many times.
    async fn pass_on(&self, id: &RequestId, lease: &Lease, delivery: u32, error: &SandboxError) -> End {
        metrics::sandbox_failed(error.kind());
        warn!(%error, "not here; to be judged elsewhere");
        let end = self.give_back(id, lease, &error.to_string(), Blame::Worker).await;
        self.pause(delivery).await;
        end
    }

    /// Longer each time.
    async fn pause(&self, time: u32) {
        let pause = RETRY_AFTER.saturating_mul(2_u32.saturating_pow(time.saturating_sub(1)));
        tokio::select! {
            () = tokio::time::sleep(pause.min(LONGEST_PAUSE)) => {}
            () = self.draining.cancelled() => {}
        }
    }

    /// Our failure. If the whole sandbox is out of order, that is not held against the request, and nothing more is taken
    /// until it is mended.
    async fn failed(&self, id: &RequestId, lease: &Lease, attempt: u32, error: &SandboxError) -> End {
        metrics::sandbox_failed(error.kind());
        let reason = error.to_string();
        if !self.check_sandbox().await {
            warn!(reason, "the sandbox is out of order; to be tried elsewhere");
            return self.give_back(id, lease, &reason, Blame::Worker).await;
        }
        let end = self.give_back(id, lease, &reason, Blame::Request).await;
        if attempt >= self.parts.settings.worker.max_attempts {
            warn!(reason, attempt, "our failure, once too often");
            return self.give_up(id).await;
        }
        warn!(reason, attempt, "our failure; to be tried again");
        self.pause(attempt).await;
        end
    }

    /// Says whether it is in order.
    pub async fn check_sandbox(&self) -> bool {
        let found = match self.parts.sandbox.check().await {
            Ok(()) if self.parts.toolchains.all_are_missing() => Some("it has no toolchain of any language".into()),
            found => found.err().map(|error| error.to_string()),
        };
        let fine = found.is_none();
        self.parts.health.set(Part::Sandbox, found);
        fine
    }

    async fn give_back(&self, id: &RequestId, lease: &Lease, reason: &str, blame: Blame) -> End {
        insist("giving a request back", || self.parts.store.give_back(id, lease, reason, blame)).await;
        End::GiveBack
    }

    async fn give_up(&self, id: &RequestId) -> End {
        let attempts = insist("reading the attempts", || self.parts.store.history(id)).await;
        let reason = attempts.last().map_or_else(|| "its workers died".into(), |last| last.end.clone());
        error!(attempts = attempts.len(), reason, "given up");
        let result = Box::new(ExecutionResult::gave_up(id, attempts.clone(), &reason));
        End::Bury { id: id.clone(), reason, attempts, result }
    }

    /// The broker gave it up, because it was delivered too often without anybody settling it.
    async fn answer_fallen(&self, id: &RequestId, digest: &Digest) -> End {
        match insist("claiming the id", || self.parts.store.claim(id, digest)).await {
            Claim::Conflict => conflict(),
            _ if self.has_result(id).await => End::Ack,
            _ => {
                let attempts = insist("reading the attempts", || self.parts.store.history(id)).await;
                let reason = "it was delivered too often without an end";
                error!(attempts = attempts.len(), reason, "given up");
                let result = Box::new(ExecutionResult::gave_up(id, attempts.clone(), reason));
                End::Bury { id: id.clone(), reason: reason.into(), attempts, result }
            }
        }
    }

    async fn has_result(&self, id: &RequestId) -> bool {
        let look = || async move {
            match self.parts.store.state(id).await {
                // One of a newer version is one.
                Err(StoreError::Unreadable { .. }) => Ok(true),
                state => state.map(|state| matches!(state, State::Done(_))),
            }
        };
        insist("looking for a result", || look().boxed()).await
    }

    /// Returns when the result is stored: only then may the delivery be settled.
    async fn store(&self, id: &RequestId, digest: &Digest, result: &ExecutionResult) {
        if !insist("storing the result", || self.parts.store.put(id, Some(digest), result)).await {
            info!("another result was first; this one is dropped");
            metrics::duplicate_dropped();
        }
    }
}

/// An attempt that is ours to make.
struct Begun<'a> {
    lease: Lease,
    attempt: u32,
    _presence: Presence<'a>,
}

/// Why a message is not judged.
struct Refusal {
    result: Box<ExecutionResult>,
    /// The field that makes it no request at all.
    malformed: Option<String>,
}

fn conflict() -> End {
    warn!("another request has the same id");
    End::Nobodys { reason: "another request has the same id" }
}

/// The request's own id, or else the message's.
fn id_of(delivery: &Delivery, request: &Result<ExecutionRequest, Malformed>) -> Option<RequestId> {
    let own = match request {
        Ok(request) => request.request_id.as_deref().map(|id| id.parse().ok()),
        Err(malformed) => malformed.request_id.clone().map(Some),
    };
    own.unwrap_or_else(|| delivery.message_id.as_deref()?.parse().ok())
}

/// The second part of `VERSION-TRACE-PARENT-FLAGS`. Whatever is no such thing stays out of the logs.
fn trace_id(traceparent: &str) -> Option<&str> {
    let trace = traceparent.split('-').nth(1)?;
    (trace.len() == 32 && trace.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(trace)
}

/// Until it is answered. Meanwhile the request stays unsettled and its place taken, so nothing new comes in.
async fn insist<'a, T, E: std::fmt::Display>(doing: &'static str, ask: impl Fn() -> BoxFuture<'a, Result<T, E>>) -> T {
    let mut delays = Delays::new(Duration::from_millis(100), Duration::from_secs(2));
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(error) => {
                warn!(%error, doing, "no answer; asking again");
                tokio::time::sleep(delays.next_delay()).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_told_by_its_id_and_nothing_else() {
        let id = "0af7651916cd43dd8448eb211c80319c";
        assert_eq!(trace_id(&format!("00-{id}-b7ad6b7169203331-01")), Some(id));
        for forged in ["", "00", "00-short-b7ad6b7169203331-01", "00-0af7651916cd43dd8448eb211c8031\x1b]-b7-01"] {
            assert_eq!(trace_id(forged), None, "{forged:?}");
        }
    }
}
