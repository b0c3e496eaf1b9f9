//! The client of the fleet: submit, poll, wait, follow, cancel; and what an operator looks at.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, StreamExt, stream};
use tribunal_shared::config::{LimitSettings, Settings};
use tribunal_shared::language::Languages;
use tribunal_shared::queue::{Broker, DeadLetter, Depth, Fate, Message, QueueError};
use tribunal_shared::request::{Digest, ExecutionRequest, Job, Priority, Rejection, RequestId};
use tribunal_shared::result::{ExecutionResult, ExecutionStatus};
use tribunal_shared::store::{Claim, Event, Events, ResultStore, State, StoreError, WorkerStatus};

#[derive(Clone)]
pub struct Client {
    broker: Arc<dyn Broker>,
    store: Arc<dyn ResultStore>,
    limits: LimitSettings,
    languages: Languages,
    traceparent: Option<String>,
}

/// Requests that are published together and confirmed together.
const BATCH: usize = 128;
/// While one batch waits for its confirms, others are on their way.
const BATCHES_UNDER_WAY: usize = 8;

/// A checked request on its way.
struct Outgoing {
    id: RequestId,
    digest: Digest,
    body: Vec<u8>,
    /// Its id was made up here.
    made_up: bool,
    /// It was enqueued before, by an earlier submission.
    accepted: bool,
    priority: Priority,
    language: String,
    traceparent: Option<String>,
}

impl Outgoing {
    /// Leaves without its body.
    fn message(&mut self) -> Message {
        Message {
            id: self.id.clone(),
            body: std::mem::take(&mut self.body),
            priority: self.priority,
            language: self.language.clone(),
            traceparent: self.traceparent.clone(),
        }
    }
}

/// What came of a wish to cancel.
#[derive(Debug, Clone, PartialEq)]
pub enum Cancellation {
    Cancelled,
    /// Somebody cancelled it before.
    Already,
    /// It has a result already.
    TooLate(Box<ExecutionResult>),
    /// It was never submitted, or has expired.
    Unknown,
}

/// What came of a wish to have a dead letter judged anew.
#[derive(Debug, Clone, PartialEq)]
pub enum Requeued {
    Done,
    NotThere,
    /// It was judged after all.
    HasResult(Box<ExecutionResult>),
    /// Its id belongs to another request.
    Conflict,
}

#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    #[error("the request is not valid: {0}")]
    Rejected(#[from] Rejection),
    #[error(
        "the request is {bytes} bytes long as JSON, at most {limit} are allowed (limits.max_request_bytes). \
         Split its tests over several requests"
    )]
    TooLarge { bytes: usize, limit: usize },
    #[error("request id {0} belongs to another request already; choose a new one")]
    Conflict(RequestId),
    #[error(transparent)]
    Queue(#[from] QueueError),
    #[error(transparent)]
    Store(Arc<StoreError>),
}

impl From<StoreError> for SubmitError {
    fn from(error: StoreError) -> Self {
        Self::Store(Arc::new(error))
    }
}

impl Client {
    pub fn new(broker: Arc<dyn Broker>, store: Arc<dyn ResultStore>, settings: &Settings) -> Self {
        Self { broker, store, limits: settings.limits.clone(), languages: settings.languages(), traceparent: None }
    }

    /// The same client, whose requests belong to a trace, as in W3C Trace Context.
    pub fn with_traceparent(self, traceparent: Option<String>) -> Self {
        Self { traceparent, ..self }
    }

    /// Enqueues a request; when this returns, its result will come. An absent id is made up.
    ///
    /// Repeating a submission is safe: the same id with the same body is the same request, and is not enqueued twice
    /// once it was confirmed.
    pub async fn submit(&self, request: ExecutionRequest) -> Result<RequestId, SubmitError> {
        let outcomes = self.submit_chunk(vec![request]).await;
        outcomes.into_iter().next().expect("one request, one outcome")
    }

    /// Enqueues many, each accepted or refused on its own, and yields the outcomes in their order. Some hundreds are under
    /// way at a time; no more of them are held in memory.
    pub fn submit_batch<'a>(
        &'a self,
        requests: impl IntoIterator<Item = ExecutionRequest, IntoIter: Send + 'a>,
    ) -> impl Stream<Item = Result<RequestId, SubmitError>> + Send + 'a {
        stream::iter(requests)
            .chunks(BATCH)
            .map(|chunk| self.submit_chunk(chunk))
            .buffered(BATCHES_UNDER_WAY)
            .flat_map(stream::iter)
    }

    async fn submit_chunk(&self, requests: Vec<ExecutionRequest>) -> Vec<Result<RequestId, SubmitError>> {
        let mut outcomes: Vec<_> = requests.into_iter().map(|request| self.prepare(request)).collect();
        self.claim(&mut outcomes).await;

        let ready = |outcome: &Result<Outgoing, SubmitError>| matches!(outcome, Ok(outgoing) if !outgoing.accepted);
        let messages = outcomes.iter_mut().flatten().filter(|outgoing| !outgoing.accepted).map(Outgoing::message);
        let published = self.broker.publish_all(messages.collect()).await;
        let mut confirmed = Vec::with_capacity(published.len());
        for (outcome, published) in outcomes.iter_mut().filter(|outcome| ready(outcome)).zip(published) {
            let Ok(outgoing) = outcome else { continue };
            match published {
                Ok(()) => confirmed.push((outgoing.id.clone(), outgoing.digest.clone())),
                Err(error) => {
                    // Best effort: an unconfirmed claim stands in nobody's way. But what may be enqueued keeps its id.
                    if !matches!(error, QueueError::Unconfirmed { .. }) && !outgoing.made_up {
                        let _ = self.store.release(&outgoing.id).await;
                    }
                    *outcome = Err(error.into());
                }
            }
        }
        // It is accepted, whether or not the store hears of it now: a worker will tell it.
        if !confirmed.is_empty() {
            let _ = self.store.confirm_all(&confirmed).await;
        }
        outcomes.into_iter().map(|outcome| outcome.map(|outgoing| outgoing.id)).collect()
    }

    fn prepare(&self, mut request: ExecutionRequest) -> Result<Outgoing, SubmitError> {
        let made_up = request.request_id.is_none();
        request.request_id.get_or_insert_with(|| RequestId::generate().into());
        let body = serde_json::to_vec(&request).expect("a request has only string keys");
        let job = Job::check(request, &self.limits, &self.languages)?;
        if body.len() > self.limits.max_request_bytes {
            return Err(SubmitError::TooLarge { bytes: body.len(), limit: self.limits.max_request_bytes });
        }
        Ok(Outgoing {
            id: job.id().clone(),
            digest: Digest::of(&body),
            body,
            made_up,
            accepted: false,
            priority: job.priority(),
            language: job.language().name().to_owned(),
            traceparent: self.traceparent.clone(),
        })
    }

    /// Ties ids to bodies, before anything is enqueued. One that was just made up is nobody else's.
    async fn claim(&self, outcomes: &mut [Result<Outgoing, SubmitError>]) {
        let named = |outcome: &&mut Result<Outgoing, SubmitError>| matches!(outcome, Ok(outgoing) if !outgoing.made_up);
        let named: Vec<_> = outcomes.iter_mut().filter(named).collect();
        if named.is_empty() {
            return;
        }
        let ids: Vec<_> =
            named.iter().flat_map(|outcome| outcome.as_ref()).map(|o| (o.id.clone(), o.digest.clone())).collect();
        match self.store.claim_all(&ids).await {
            Ok(claims) => {
                for (outcome, claim) in named.into_iter().zip(claims) {
                    match (claim, &mut *outcome) {
                        (Claim::Conflict, Ok(outgoing)) => {
                            *outcome = Err(SubmitError::Conflict(outgoing.id.clone()));
                        }
                        (Claim::Accepted, Ok(outgoing)) => outgoing.accepted = true,
                        _ => {}
                    }
                }
            }
            Err(error) => {
                let error = Arc::new(error);
                for outcome in named {
                    *outcome = Err(SubmitError::Store(Arc::clone(&error)));
                }
            }
        }
    }

    /// Ends a request, wherever it is: it gets a result that says so, and a worker that runs it stops.
    pub async fn cancel(&self, id: &RequestId) -> Result<Cancellation, StoreError> {
        if self.store.state(id).await? == State::Unknown {
            return Ok(Cancellation::Unknown);
        }
        if self.store.put(id, None, &ExecutionResult::cancelled(id)).await? {
            return Ok(Cancellation::Cancelled);
        }
        match self.store.state(id).await? {
            State::Done(result) if result.status == ExecutionStatus::Cancelled => Ok(Cancellation::Already),
            State::Done(result) => Ok(Cancellation::TooLate(result)),
            _ => Ok(Cancellation::Unknown),
        }
    }

    /// Workers that live, or did not long ago.
    pub async fn workers(&self) -> Result<Vec<WorkerStatus>, StoreError> {
        self.store.workers().await
    }

    pub async fn depth(&self) -> Result<Depth, QueueError> {
        self.broker.depth().await
    }

    /// The oldest dead letters.
    pub async fn dead_letters(&self, most: usize) -> Result<Vec<DeadLetter>, QueueError> {
        self.broker.dead_letters(most).await
    }

    /// Brings dead letters back as if they were new, and says of each key what came of it. Their results, which say that
    /// they were given up, are forgotten; so if the queue fails now, they have none until they are brought back.
    pub async fn requeue(&self, keys: &[String]) -> Result<Vec<Requeued>, SubmitError> {
        let letters = self.broker.dead_letters(usize::MAX).await?;
        let digests: HashMap<_, _> = letters.iter().rev().map(|dead| (dead.key(), Digest::of(&dead.body))).collect();
        drop(letters);
        let mut outcomes = vec![Requeued::NotThere; keys.len()];
        let (mut places, mut ready, mut ids) = (Vec::new(), Vec::new(), Vec::new());
        for (place, key) in keys.iter().enumerate() {
            let Some(digest) = digests.get(key) else { continue };
            if let Ok(id) = key.parse::<RequestId>() {
                match self.store.state(&id).await? {
                    State::Done(result) if result.status != ExecutionStatus::SandboxError => {
                        outcomes[place] = Requeued::HasResult(result);
                        continue;
                    }
                    _ if self.store.forget(&id, digest).await? => {}
                    _ => {
                        outcomes[place] = Requeued::Conflict;
                        continue;
                    }
                }
                ids.push((id, digest.clone()));
            }
            places.push(place);
            ready.push(key.clone());
        }
        for (place, count) in places.into_iter().zip(self.broker.exhume_all(&ready, Fate::Requeue).await?) {
            if count > 0 {
                outcomes[place] = Requeued::Done;
            }
        }
        ids.retain(|(id, _)| {
            keys.iter().zip(&outcomes).any(|(key, outcome)| key == id.as_str() && *outcome == Requeued::Done)
        });
        // As with a submission: they are enqueued, whether or not the store hears of it now.
        if !ids.is_empty() {
            let _ = self.store.confirm_all(&ids).await;
        }
        Ok(outcomes)
    }

    /// Takes dead letters away for good. Says of each key whether there was one.
    pub async fn drop_dead(&self, keys: &[String]) -> Result<Vec<bool>, QueueError> {
        let counts = self.broker.exhume_all(keys, Fate::Drop).await?;
        Ok(counts.into_iter().map(|count| count > 0).collect())
    }

    pub async fn poll(&self, id: &RequestId) -> Result<State, StoreError> {
        self.store.state(id).await
    }

    /// The result as soon as it is there, or `None` when `patience` runs out first. The store wakes us; nothing polls.
    pub async fn wait(
        &self,
        id: &RequestId,
        patience: Option<Duration>,
    ) -> Result<Option<ExecutionResult>, StoreError> {
        self.follow(id, patience, |_| {}).await
    }

    /// Like [`Client::wait`], and every event on the way is shown to `seen`.
    pub async fn follow(
        &self,
        id: &RequestId,
        patience: Option<Duration>,
        mut seen: impl FnMut(&Event),
    ) -> Result<Option<ExecutionResult>, StoreError> {
        let result = async {
            let mut last = None;
            loop {
                if let State::Done(result) = self.store.state(id).await? {
                    return Ok(*result);
                }
                // Ends with the final event, after which the result is there.
                let mut events = self.store.events(id, last.take()).await?;
                while let Some(numbered) = events.next().await {
                    let numbered = numbered?;
                    seen(&numbered.event);
                    last = Some(numbered.id);
                }
            }
        };
        match patience {
            None => result.await.map(Some),
            Some(patience) => tokio::time::timeout(patience, result).await.ok().transpose(),
        }
    }

    /// What happens to a request, from the beginning or after an event seen before.
    pub async fn events(&self, id: &RequestId, after: Option<String>) -> Result<Events, StoreError> {
        self.store.events(id, after).await
    }
}

#[cfg(test)]
mod tests;
