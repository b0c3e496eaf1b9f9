//! The queue between producers and workers: RabbitMQ, or memory within one process.
//!
//! [`connect`] is the only place that chooses. The promises on [`Broker`] and [`Delivery`] are checked for every
//! backend by one contract suite.

pub mod memory;
mod rabbitmq;

use std::sync::Arc;

use async_trait::async_trait;

use crate::address;
use crate::config::QueueSettings;
use crate::request::RequestId;

/// The AMQP `type` of a judge request; absent means the same.
pub const EXECUTION_REQUEST: &str = "execution_request";

/// Deliveries after which a backend dead-letters a message by itself. Workers give up earlier and say why; this is the
/// net below them.
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

/// A message to publish.
#[derive(Debug, Clone)]
pub struct Message {
    pub id: RequestId,
    /// An `ExecutionRequest` as JSON.
    pub body: Vec<u8>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Depth {
    pub ready: u64,
    pub dead: u64,
    /// Those who wait for requests, or work on them.
    pub consumers: u64,
}

#[async_trait]
pub trait Broker: Send + Sync {
    /// Returns once the message is safe: a broker that dies afterwards still has it.
    async fn publish(&self, message: Message) -> Result<(), QueueError>;

    /// Deliveries in order of arrival, of which at most `prefetch` are unsettled at a time.
    async fn consume(&self, prefetch: u16) -> Result<Box<dyn Consumer>, QueueError>;

    /// Looks and changes nothing: a queue that does not exist yet is as good as empty.
    async fn depth(&self) -> Result<Depth, QueueError>;
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
    /// 1 for the first delivery.
    pub attempt: u32,
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

    /// To the dead letters, for a person to look at.
    pub async fn dead_letter(self) -> Result<(), QueueError> {
        self.settle.settle(Settlement::DeadLetter).await
    }
}

enum Settlement {
    Ack,
    GiveBack,
    DeadLetter,
}

#[async_trait]
trait Settle: Send {
    async fn settle(self: Box<Self>, settlement: Settlement) -> Result<(), QueueError>;
}

/// The broker at `settings.url`. A RabbitMQ is connected to on first use.
pub fn connect(settings: &QueueSettings) -> Result<Arc<dyn Broker>, QueueError> {
    let address = || address::without_credentials(&settings.url);
    match address::scheme(&settings.url) {
        "amqp" => Ok(Arc::new(rabbitmq::RabbitMq::new(settings)?)),
        "memory" => Ok(Arc::new(memory::MemoryBroker::default())),
        "amqps" => Err(QueueError::NoTls { address: address() }),
        _ => Err(QueueError::UnknownScheme { address: address() }),
    }
}
