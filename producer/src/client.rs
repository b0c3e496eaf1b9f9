//! The client of the fleet: submit, poll, wait, follow.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use tribunal_shared::config::{LimitSettings, Settings};
use tribunal_shared::language::Languages;
use tribunal_shared::queue::{Broker, Message, QueueError};
use tribunal_shared::request::{Digest, ExecutionRequest, Job, Rejection, RequestId};
use tribunal_shared::result::ExecutionResult;
use tribunal_shared::store::{Claim, Event, Events, ResultStore, State, StoreError};

#[derive(Clone)]
pub struct Client {
    broker: Arc<dyn Broker>,
    store: Arc<dyn ResultStore>,
    limits: LimitSettings,
    languages: Languages,
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
    Store(#[from] StoreError),
}

impl Client {
    pub fn new(broker: Arc<dyn Broker>, store: Arc<dyn ResultStore>, settings: &Settings) -> Self {
        Self { broker, store, limits: settings.limits.clone(), languages: settings.languages() }
    }

    /// Enqueues a request; when this returns, its result will come. An absent id is made up.
    ///
    /// Repeating a submission is safe: the same id with the same body is the same request, and is not enqueued twice
    /// once it was confirmed.
    pub async fn submit(&self, mut request: ExecutionRequest) -> Result<RequestId, SubmitError> {
        request.request_id.get_or_insert_with(|| RequestId::generate().into());
        let job = Job::check(request.clone(), &self.limits, &self.languages)?;
        let id = job.id().clone();
        let body = serde_json::to_vec(&request).expect("a request has only string keys");
        if body.len() > self.limits.max_request_bytes {
            return Err(SubmitError::TooLarge { bytes: body.len(), limit: self.limits.max_request_bytes });
        }

        match self.store.claim(&id, &Digest::of(&body)).await? {
            Claim::New | Claim::Unconfirmed => {}
            Claim::Accepted => return Ok(id),
            Claim::Conflict => return Err(SubmitError::Conflict(id)),
        }
        if let Err(error) = self.broker.publish(Message { id: id.clone(), body }).await {
            // Best effort: an unconfirmed claim stands in nobody's way. But what may be enqueued keeps its id.
            if !matches!(error, QueueError::Unconfirmed { .. }) {
                let _ = self.store.release(&id).await;
            }
            return Err(error.into());
        }
        self.store.confirm(&id).await?;
        Ok(id)
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
