//! RabbitMQ: a quorum queue for requests, another for dead letters.
//!
//! Publishing and consuming use connections of their own, because a broker that is short of memory or disk blocks
//! those that publish, and acks must still get through.

use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt;
use lapin::options::{
    BasicAckOptions, BasicCancelOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions, BasicRejectOptions,
    ConfirmSelectOptions, QueueDeclareOptions,
};
use lapin::protocol::{AMQPErrorKind, AMQPHardError, AMQPSoftError};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::uri::AMQPUri;
use lapin::{BasicProperties, Channel, Confirmation, Connection, ConnectionProperties};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout};

use super::{
    Broker, Consumer, DELIVERY_LIMIT, Delivery, Depth, EXECUTION_REQUEST, Message, QueueError, Settle, Settlement,
};
use crate::address;
use crate::config::QueueSettings;

/// A broker that has not answered by then is as good as down.
const ANSWER_WITHIN: Duration = Duration::from_secs(4);
/// A confirm waits for a majority of the quorum queue's disks.
const CONFIRM_WITHIN: Duration = Duration::from_secs(30);
/// A frozen worker's requests go elsewhere after two of these.
const HEARTBEAT_S: u16 = 10;
/// A quorum queue that another client is just declaring, or whose node was lost, has no leader for a moment. It nacks
/// what is published then, and fails to be consumed.
const LEADERLESS_FOR: Duration = Duration::from_secs(2);
const LEADERLESS_PAUSE: Duration = Duration::from_millis(50);
const PERSISTENT: u8 = 2;
/// Reject, not nack: from RabbitMQ 4.3 on only this counts as a delivery.
const REQUEUE: BasicRejectOptions = BasicRejectOptions { requeue: true };

pub struct RabbitMq {
    uri: AMQPUri,
    address: String,
    requests: ShortString,
    dead: ShortString,
    publisher: Mutex<Option<Link>>,
}

/// A connection with one channel. Both close when the last clone is dropped.
#[derive(Clone)]
struct Link {
    connection: std::sync::Arc<Connection>,
    channel: Channel,
}

impl RabbitMq {
    pub fn new(settings: &QueueSettings) -> Result<Self, QueueError> {
        let address = address::without_credentials(&settings.url);
        let mut uri: AMQPUri = settings.url.parse().map_err(|reason| unreachable(&address, reason))?;
        uri.query.heartbeat.get_or_insert(HEARTBEAT_S);
        Ok(Self {
            uri,
            address,
            requests: format!("{}.requests", settings.name).into(),
            dead: format!("{}.dead", settings.name).into(),
            publisher: Mutex::new(None),
        })
    }

    /// Everything but a confirm is answered soon or not at all, and what waits for another caller's attempt waits no
    /// longer than that.
    async fn soon<T>(&self, work: impl Future<Output = lapin::Result<T>> + Send) -> Result<T, QueueError> {
        match timeout(ANSWER_WITHIN, work).await {
            Ok(done) => done.map_err(|error| unreachable(&self.address, self.explain_start(&error))),
            Err(_) => Err(unreachable(&self.address, format!("no answer within {} s", ANSWER_WITHIN.as_secs()))),
        }
    }

    /// What can be wrong from the start, with its remedy.
    fn explain_start(&self, error: &lapin::Error) -> String {
        let reason = explain(error);
        if is(error, AMQPHardError::NOTALLOWED) && self.uri.vhost.is_empty() {
            format!("{reason} (the URL names no virtual host; the default one is written /%2f)")
        } else if is(error, AMQPSoftError::PRECONDITIONFAILED) {
            format!("{reason} (delete that queue, or choose another queue.name)")
        } else {
            reason
        }
    }

    async fn connection(&self, purpose: &str) -> lapin::Result<Connection> {
        let name = format!("tribunal {purpose}");
        let properties = ConnectionProperties::default().with_connection_name(name.into());
        Connection::connect_uri(self.uri.clone(), properties).await
    }

    async fn link(&self, purpose: &str) -> lapin::Result<Link> {
        let connection = self.connection(purpose).await?;
        let channel = connection.create_channel().await?;
        self.declare(&channel).await?;
        Ok(Link { connection: std::sync::Arc::new(connection), channel })
    }

    async fn declare(&self, channel: &Channel) -> lapin::Result<()> {
        let text = |value: &str| AMQPValue::LongString(value.into());
        let mut dead = FieldTable::default();
        dead.insert("x-queue-type".into(), text("quorum"));
        let mut requests = dead.clone();
        requests.insert("x-delivery-limit".into(), AMQPValue::LongInt(DELIVERY_LIMIT as i32));
        requests.insert("x-dead-letter-exchange".into(), text(""));
        requests.insert("x-dead-letter-routing-key".into(), text(self.dead.as_str()));
        // At-least-once: a dead letter leaves this queue only when the other one has it, which needs reject-publish.
        requests.insert("x-dead-letter-strategy".into(), text("at-least-once"));
        requests.insert("x-overflow".into(), text("reject-publish"));
        channel.queue_declare(self.dead.clone(), QueueDeclareOptions::durable(), dead).await?;
        channel.queue_declare(self.requests.clone(), QueueDeclareOptions::durable(), requests).await?;
        Ok(())
    }

    async fn publisher(&self) -> Result<Link, QueueError> {
        self.soon(async {
            let mut publisher = self.publisher.lock().await;
            if let Some(link) = publisher.as_ref().filter(|link| link.channel.status().connected()) {
                return Ok(link.clone());
            }
            let link = self.link("publisher").await?;
            link.channel.confirm_select(ConfirmSelectOptions::default()).await?;
            *publisher = Some(link.clone());
            Ok(link)
        })
        .await
    }
}

#[async_trait]
impl Broker for RabbitMq {
    async fn publish(&self, message: Message) -> Result<(), QueueError> {
        let address = || self.address.clone();
        let refused = |reason: &str| QueueError::NotAccepted { address: address(), reason: reason.into() };
        let unconfirmed = |reason: &str| QueueError::Unconfirmed { address: address(), reason: reason.into() };
        let link = self.publisher().await?;
        if link.connection.status().blocked() {
            return Err(refused("it is short of memory or disk and blocks publishers"));
        }
        let properties = BasicProperties::default()
            .with_delivery_mode(PERSISTENT)
            .with_content_type("application/json".into())
            .with_message_id(message.id.as_str().into())
            .with_type(EXECUTION_REQUEST.into());
        // Mandatory: a message that no queue takes must not vanish.
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let publish = async || {
            link.channel
                .basic_publish("".into(), self.requests.clone(), options, &message.body, properties.clone())
                .await?
                .await
        };
        let nacked_until = Instant::now() + LEADERLESS_FOR;
        loop {
            return match timeout(CONFIRM_WITHIN, publish()).await {
                Ok(Ok(Confirmation::Ack(None))) => Ok(()),
                Ok(Ok(Confirmation::Ack(Some(_)))) => {
                    // Somebody deleted it; the next connection declares it again.
                    *self.publisher.lock().await = None;
                    Err(refused("no queue takes it"))
                }
                Ok(Ok(Confirmation::Nack(_))) if Instant::now() < nacked_until => {
                    sleep(LEADERLESS_PAUSE).await;
                    continue;
                }
                Ok(Ok(Confirmation::Nack(_))) => Err(refused("the queue is full or has no leader")),
                Ok(Ok(Confirmation::NotRequested)) => Err(unconfirmed("it was not asked to")),
                Ok(Err(error)) => Err(unconfirmed(&explain(&error))),
                Err(_) => Err(unconfirmed(&format!("no answer within {} s", CONFIRM_WITHIN.as_secs()))),
            };
        }
    }

    async fn consume(&self, prefetch: u16) -> Result<Box<dyn Consumer>, QueueError> {
        let subscribe = async || {
            let link = self.link("worker").await?;
            // Before consuming: the client's buffer has no bound of its own.
            link.channel.basic_qos(prefetch, BasicQosOptions::default()).await?;
            let (queue, options) = (self.requests.clone(), BasicConsumeOptions::default());
            let deliveries = link.channel.basic_consume(queue, "".into(), options, FieldTable::default()).await?;
            Ok((link, deliveries))
        };
        let subscribed = self.soon(async {
            loop {
                match subscribe().await {
                    Err(error) if is(&error, AMQPHardError::INTERNALERROR) => sleep(LEADERLESS_PAUSE).await,
                    subscribed => return subscribed,
                }
            }
        });
        let (link, deliveries) = subscribed.await?;
        Ok(Box::new(RabbitConsumer { link, deliveries, address: self.address.clone() }))
    }

    async fn depth(&self) -> Result<Depth, QueueError> {
        let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        self.soon(async {
            let connection = self.connection("observer").await?;
            let count = async |name: &ShortString| {
                // One for each queue: the broker closes it when there is no such queue.
                let channel = connection.create_channel().await?;
                match channel.queue_declare(name.clone(), passive, FieldTable::default()).await {
                    Ok(queue) => Ok((queue.message_count().into(), queue.consumer_count().into())),
                    Err(error) if is(&error, AMQPSoftError::NOTFOUND) => Ok((0, 0)),
                    Err(error) => Err(error),
                }
            };
            let ((ready, consumers), (dead, _)) = (count(&self.requests).await?, count(&self.dead).await?);
            Ok(Depth { ready, dead, consumers })
        })
        .await
    }
}

struct RabbitConsumer {
    /// Dropping the connection would end the consumer.
    link: Link,
    deliveries: lapin::Consumer,
    address: String,
}

#[async_trait]
impl Consumer for RabbitConsumer {
    async fn next(&mut self) -> Result<Delivery, QueueError> {
        let lost = |reason: String| QueueError::Lost { address: self.address.clone(), reason };
        let mut delivery = match self.deliveries.next().await {
            Some(Ok(delivery)) => delivery,
            Some(Err(error)) => return Err(lost(explain(&error))),
            None => return Err(lost("the broker ended the subscription".into())),
        };
        let properties = &delivery.properties;
        Ok(Delivery {
            attempt: earlier_deliveries(&delivery).saturating_add(1),
            message_id: properties.message_id().as_ref().map(ToString::to_string),
            kind: properties.kind().as_ref().map(ToString::to_string),
            body: std::mem::take(&mut delivery.data),
            settle: Box::new(Unsettled { delivery: Some(delivery), address: self.address.clone() }),
        })
    }

    async fn stop(&mut self) {
        // If it fails, or is not answered, the connection is gone, and with it the subscription.
        let cancel = self.link.channel.basic_cancel(self.deliveries.tag(), BasicCancelOptions::default());
        let _ = timeout(ANSWER_WITHIN, cancel).await;
    }
}

/// Quorum queues count deliveries in a header, which is absent on the first; one that is there all the same was written by
/// the producer.
fn earlier_deliveries(delivery: &lapin::message::Delivery) -> u32 {
    if !delivery.redelivered {
        return 0;
    }
    let headers = delivery.properties.headers().as_ref();
    let count = headers.and_then(|headers| headers.inner().get("x-delivery-count")).and_then(|value| match value {
        AMQPValue::LongLongInt(count) => u32::try_from(*count).ok(),
        AMQPValue::LongInt(count) => u32::try_from(*count).ok(),
        AMQPValue::LongUInt(count) => Some(*count),
        AMQPValue::ShortInt(count) => u32::try_from(*count).ok(),
        AMQPValue::ShortShortInt(count) => u32::try_from(*count).ok(),
        _ => None,
    });
    count.unwrap_or(1)
}

struct Unsettled {
    /// Emptied of its body; absent once it is settled.
    delivery: Option<lapin::message::Delivery>,
    address: String,
}

#[async_trait]
impl Settle for Unsettled {
    async fn settle(mut self: Box<Self>, settlement: Settlement) -> Result<(), QueueError> {
        let Some(delivery) = self.delivery.take() else { return Ok(()) };
        let lost = |reason| QueueError::Lost { address: self.address.clone(), reason };
        let sent = match settlement {
            Settlement::Ack => delivery.ack(BasicAckOptions::default()).await,
            Settlement::GiveBack => delivery.reject(REQUEUE).await,
            Settlement::DeadLetter => delivery.reject(BasicRejectOptions { requeue: false }).await,
        };
        match sent {
            Ok(true) => Ok(()),
            // The connection is gone, and with it the delivery: the broker delivers it again.
            Ok(false) => Err(lost("the delivery could not be settled".into())),
            Err(error) => Err(lost(explain(&error))),
        }
    }
}

impl Drop for Unsettled {
    /// Given back at once: the broker by itself would wait until the connection ends.
    fn drop(&mut self) {
        if let Some(delivery) = self.delivery.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(async move { delivery.reject(REQUEUE).await });
        }
    }
}

/// Whether it is what the broker says.
fn is(error: &lapin::Error, kind: impl Into<AMQPErrorKind>) -> bool {
    matches!(error.kind(), lapin::ErrorKind::ProtocolError(protocol) if *protocol.kind() == kind.into())
}

fn unreachable(address: &str, reason: String) -> QueueError {
    QueueError::Unreachable { what: "RabbitMQ", address: address.into(), reason }
}

/// The broker's own words, where there are any.
fn explain(error: &lapin::Error) -> String {
    match error.kind() {
        lapin::ErrorKind::IOError(io) => io.to_string(),
        lapin::ErrorKind::ProtocolError(protocol) => protocol.get_message().to_string(),
        // The parser's own words help nobody.
        lapin::ErrorKind::ParsingError(_) | lapin::ErrorKind::InvalidProtocolVersion(_) => {
            "what answers there does not speak AMQP 0-9-1".into()
        }
        _ => error.to_string(),
    }
}
