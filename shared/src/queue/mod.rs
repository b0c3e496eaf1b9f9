//! The queue between producers and workers: RabbitMQ, or memory within one process.
//!
//! [`connect`] is the only place that chooses. The promises on [`Broker`] and [`Delivery`] are checked for every
//! backend by one contract suite.

pub mod memory;
mod rabbitmq;

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use serde::Serialize;

use crate::address;
use crate::config::QueueSettings;
use crate::request::{Digest, Priority, RequestId};
use crate::result::Attempt;

/// The AMQP `type` of a judge request; absent means the same.
pub const EXECUTION_REQUEST: &str = "execution_request";

/// Whether this version can judge messages of a kind. Others are parked for one that can.
pub fn is_known(kind: Option<&str>) -> bool {
    kind.is_none_or(|kind| kind == EXECUTION_REQUEST)
}

/// Deliveries after which a backend gives a message up by itself. Workers give up earlier and say why; this is the net
/// below them, for what kills a worker before it can count.
const DELIVERY_LIMIT: u32 = 20;

#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    #[error(
        "cannot reach {what} at {address}: {reason}. Is it running there, and is queue.url (TRIBUNAL_QUEUE__URL) right?"
    )]
    Unreachable { what: &'static str, address: String, reason: String },
    #[error("the queue at {address} did not accept the message: {reason}. It is not enqueued; try again later")]
    NotAccepted { address: String, reason: String },
    #[error(
        "the queue at {address} did not confirm the message: {reason}. It may or may not be enqueued; submitting it \
         again under the same id is safe"
    )]
    Unconfirmed { address: String, reason: String },
    #[error("the connection to {address} was lost: {reason}")]
    Lost { address: String, reason: String },
    #[error("queue.url: {address} is no address of a queue; it starts with amqp:// or memory://")]
    UnknownScheme { address: String },
    #[error(
        "queue.url: {address} asks for TLS, which this build does not have. Use amqp:// within a private network, or to \
         a TLS tunnel"
    )]
    NoTls { address: String },
}

/// A request on its way to a worker.
#[derive(Debug, Clone)]
pub struct Message {
    pub id: RequestId,
    /// An `ExecutionRequest` as JSON.
    pub body: Vec<u8>,
    pub priority: Priority,
    /// The language's name, which may have a queue of its own.
    pub language: String,
    /// The caller's trace, as in W3C Trace Context; carried along, and shown in logs.
    pub traceparent: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Depth {
    /// Requests that wait, over all queues.
    pub ready: u64,
    /// Dead letters.
    pub dead: u64,
    /// Messages of a version that no worker knew.
    pub parked: u64,
    /// Messages that the broker gave up twice, because nobody could even answer them.
    pub unanswered: u64,
    /// Those who wait for requests, or work on them.
    pub consumers: u64,
    /// Each queue of requests by name, with what waits in it.
    pub queues: Vec<(String, u64)>,
}

/// A message that will not be tried again, as an operator finds it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeadLetter {
    /// The request's id, if there was one.
    pub id: Option<String>,
    #[serde(skip)]
    pub body: Vec<u8>,
    pub kind: Option<String>,
    /// Where it came from.
    pub queue: String,
    pub reason: String,
    /// What became of each attempt.
    pub attempts: Vec<Attempt>,
    /// Unix time.
    pub died_at_ms: u64,
    pub traceparent: Option<String>,
}

/// What a letter tells travels beside its body, where there is not much room: a message that cannot be put aside would be
/// tried for ever.
const LONGEST_REASON: usize = 1000;
const MOST_ATTEMPTS: usize = 20;

impl DeadLetter {
    /// Without an id if the one that it has is another request's.
    pub fn of(delivery: &Delivery, id: Option<&RequestId>, reason: &str, attempts: Vec<Attempt>) -> Self {
        let (reason, mut attempts) = (excerpt(reason), attempts);
        attempts.drain(..attempts.len().saturating_sub(MOST_ATTEMPTS));
        for attempt in &mut attempts {
            attempt.end = excerpt(&attempt.end);
        }
        Self {
            id: id.map(ToString::to_string),
            body: delivery.body.clone(),
            kind: delivery.kind.clone(),
            queue: delivery.queue.clone(),
            reason,
            attempts,
            died_at_ms: now_ms(),
            traceparent: delivery.traceparent.clone(),
        }
    }

    /// What it is called: its request's id, or else something that follows from its body.
    pub fn key(&self) -> String {
        self.id.clone().unwrap_or_else(|| format!("body-{}", &Digest::of(&self.body).as_str()[..12]))
    }
}

fn excerpt(text: &str) -> String {
    match text.floor_char_boundary(LONGEST_REASON) {
        all if all == text.len() => text.into(),
        some => format!("{}…", &text[..some]),
    }
}

/// What becomes of a dead letter that an operator has looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Back to the queue it came from, as if it were new.
    Requeue,
    Drop,
}

#[async_trait]
pub trait Broker: Send + Sync {
    /// Returns once the message is safe: a broker that dies afterwards still has it.
    async fn publish(&self, message: Message) -> Result<(), QueueError> {
        let outcomes = self.publish_all(vec![message]).await;
        outcomes.into_iter().next().unwrap_or(Ok(()))
    }

    /// The same for many at once, each accepted or not on its own, in their order.
    async fn publish_all(&self, messages: Vec<Message>) -> Vec<Result<(), QueueError>>;

    /// Deliveries of every priority, each priority in order of arrival, of which at most `prefetch` each are unsettled at a
    /// time, and one more of the urgent: the next of them must be at hand when a place is free, or another takes it. Only of these languages, which have queues of their own; of everything if there are none. Among them are those
    /// that have fallen.
    async fn consume(&self, languages: &[String], prefetch: u16) -> Result<Box<dyn Consumer>, QueueError>;

    /// Looks and changes nothing: a queue that does not exist yet is as good as empty.
    async fn depth(&self) -> Result<Depth, QueueError>;

    /// Puts a copy of a message among the dead letters. Repeating it makes another copy.
    async fn bury(&self, letter: &DeadLetter) -> Result<(), QueueError>;

    /// The oldest dead letters. They stay where they are.
    async fn dead_letters(&self, most: usize) -> Result<Vec<DeadLetter>, QueueError>;

    /// Takes the oldest dead letter with this key away, with all copies of the same body, and says how many there were. One
    /// of them goes back to its queue if that is the fate. Other bodies under the same key stay for another time.
    async fn exhume(&self, key: &str, fate: Fate) -> Result<usize, QueueError>;

    /// The same for many keys, in their order, if possible in one pass over all letters. After an error some may be gone.
    async fn exhume_all(&self, keys: &[String], fate: Fate) -> Result<Vec<usize>, QueueError> {
        let mut counts = Vec::with_capacity(keys.len());
        for key in keys {
            counts.push(self.exhume(key, fate).await?);
        }
        Ok(counts)
    }

    /// Puts a copy of a message aside for a worker of a newer version.
    async fn park(&self, delivery: &Delivery) -> Result<(), QueueError>;

    /// Puts those that were parked and that we know back on their queues. Says how many.
    async fn unpark(&self) -> Result<usize, QueueError>;
}

#[async_trait]
pub trait Consumer: Send {
    /// Waits for the next delivery; to stop waiting loses none. After an error the consumer is of no more use: consume
    /// again.
    async fn next(&mut self) -> Result<Delivery, QueueError>;

    /// Asks for no more deliveries. Those at hand can still be settled, for as long as the consumer is kept.
    async fn stop(&mut self);
}

/// A message in a worker's hands. It is settled once, which the type takes care of; one that is dropped without that is
/// given back.
pub struct Delivery {
    pub body: Vec<u8>,
    /// The AMQP `message-id`, if the producer set one.
    pub message_id: Option<String>,
    /// The AMQP `type`, if the producer set one.
    pub kind: Option<String>,
    /// The name of the queue it was published to.
    pub queue: String,
    /// 1 for the first delivery.
    pub attempt: u32,
    /// When it was published, in Unix time, if the producer said so.
    pub published_ms: Option<u64>,
    pub traceparent: Option<String>,
    /// It was delivered too often, and the broker gave it up: it is to be answered, not run.
    pub fallen: bool,
    settle: Box<dyn Settle>,
}

impl Delivery {
    /// Done: never to be delivered again.
    pub async fn ack(self) -> Result<(), QueueError> {
        self.settle.settle(Settlement::Ack).await
    }

    /// To be tried again, here or elsewhere.
    pub async fn give_back(self) -> Result<(), QueueError> {
        self.settle.settle(Settlement::GiveBack).await
    }
}

enum Settlement {
    Ack,
    GiveBack,
}

#[async_trait]
trait Settle: Send + Sync {
    async fn settle(self: Box<Self>, settlement: Settlement) -> Result<(), QueueError>;
}

/// The names of the queues.
#[derive(Debug, Clone)]
struct Names {
    base: String,
    /// Languages with queues of their own.
    separate: Vec<String>,
}

impl Names {
    fn new(settings: &QueueSettings) -> Self {
        Self { base: settings.name.clone(), separate: settings.separate.clone() }
    }

    fn requests(&self, language: Option<&str>, priority: Priority) -> String {
        let own = language.filter(|language| self.separate.iter().any(|name| name == language));
        let queue = match own {
            Some(language) => format!("{}.{language}.requests", self.base),
            None => format!("{}.requests", self.base),
        };
        match priority {
            Priority::Normal => queue,
            Priority::High | Priority::Low => format!("{queue}.{}", priority.as_str()),
        }
    }

    /// The queues of these languages, or all; the most urgent first.
    fn requests_of(&self, languages: &[String]) -> Vec<String> {
        let of = |language: Option<&str>| Priority::ALL.map(|priority| self.requests(language, priority));
        match languages {
            [] => of(None).into_iter().chain(self.separate.iter().flat_map(|language| of(Some(language)))).collect(),
            bound => bound.iter().flat_map(|language| of(Some(language))).collect(),
        }
    }

    /// What a worker consumes that is bound to these languages, or to none.
    fn consumed_by(&self, languages: &[String]) -> Vec<String> {
        let mut queues = self.requests_of(languages);
        queues.push(self.fallen());
        queues
    }

    /// How many deliveries of a queue may be unsettled.
    fn room(&self, queue: &str, prefetch: u16) -> u16 {
        prefetch.saturating_add(u16::from(queue.ends_with(&format!(".{}", Priority::High.as_str()))))
    }

    fn dead(&self) -> String {
        format!("{}.dead", self.base)
    }

    fn parked(&self) -> String {
        format!("{}.parked", self.base)
    }

    /// What the broker gave up by itself, until a worker has answered it.
    fn fallen(&self) -> String {
        format!("{}.fallen", self.base)
    }

    /// What nobody could answer. No client of ours reads it: some of it cannot be read.
    fn unanswered(&self) -> String {
        format!("{}.unanswered", self.base)
    }

    /// The queue to put a message back into that says it came from this one: whoever sent it may say anything.
    fn origin(&self, said: Option<String>) -> String {
        said.filter(|said| self.requests_of(&[]).contains(said))
            .unwrap_or_else(|| self.requests(None, Priority::Normal))
    }
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// How many deliveries a worker may have at a time that is bound to these languages, or to none.
pub fn room(settings: &QueueSettings, languages: &[String], prefetch: u16) -> usize {
    let names = Names::new(settings);
    names.consumed_by(languages).iter().map(|queue| usize::from(names.room(queue, prefetch))).sum()
}

/// The broker at `settings.url`. A RabbitMQ is connected to on first use.
pub fn connect(settings: &QueueSettings) -> Result<Arc<dyn Broker>, QueueError> {
    let address = || address::without_credentials(&settings.url);
    match address::scheme(&settings.url) {
        "amqp" => Ok(Arc::new(rabbitmq::RabbitMq::new(settings)?)),
        "memory" => Ok(Arc::new(memory::MemoryBroker::new(settings))),
        "amqps" => Err(QueueError::NoTls { address: address() }),
        _ => Err(QueueError::UnknownScheme { address: address() }),
    }
}
