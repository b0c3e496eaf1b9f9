//! Taking deliveries, from several queues over one connection.

use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::future::ready;
use futures_util::stream::{BoxStream, SelectAll, once};
use lapin::options::{BasicAckOptions, BasicCancelOptions, BasicConsumeOptions, BasicQosOptions, BasicRejectOptions};
use lapin::protocol::AMQPHardError;
use lapin::types::{FieldTable, ShortString};
use tokio::time::{sleep, timeout};

use super::super::{Consumer, Delivery, Names, QueueError, Settle, Settlement};
use super::{ANSWER_WITHIN, Link, RabbitMq, explain, headers, is, lost};

/// A quorum queue that another client is just declaring, or whose node was lost, fails to be consumed for a moment.
const LEADERLESS_PAUSE: Duration = Duration::from_millis(50);
/// Reject, not nack: from RabbitMQ 4.3 on only this counts as a delivery.
const REQUEUE: BasicRejectOptions = BasicRejectOptions { requeue: true };

pub async fn start(broker: &RabbitMq, languages: &[String], prefetch: u16) -> Result<Box<dyn Consumer>, QueueError> {
    let queues = broker.names.consumed_by(languages);
    let subscribe = async |link: &Link| {
        let mut deliveries = SelectAll::new();
        let mut tags = Vec::new();
        for queue in &queues {
            // Before consuming, for which it holds: the client's buffer has no bound of its own.
            let room = broker.names.room(queue, prefetch);
            link.channel.basic_qos(room, BasicQosOptions::default()).await?;
            let (queue, options) = (queue.as_str().into(), BasicConsumeOptions::default());
            let consumer = link.channel.basic_consume(queue, "".into(), options, FieldTable::default()).await?;
            tags.push(consumer.tag());
            // One that ends would just be left out by the others, and its queue would wait for nobody.
            deliveries.push(consumer.map(Some).chain(once(ready(None))).boxed());
        }
        Ok((deliveries, tags))
    };
    let subscribed = broker.soon(async {
        loop {
            let link = broker.link("worker").await?;
            match subscribe(&link).await {
                Err(error) if is(&error, AMQPHardError::INTERNALERROR) => sleep(LEADERLESS_PAUSE).await,
                // From the first of several queues a message may come before we are done with the others.
                Err(error) if is_unreadable(&error) => return Ok(Err(broken(&broker.address, &error))),
                subscribed => return subscribed.map(|(deliveries, tags)| Ok((link, deliveries, tags))),
            }
        }
    });
    let (link, deliveries, tags) = subscribed.await??;
    let (address, names) = (broker.address.clone(), broker.names.clone());
    Ok(Box::new(RabbitConsumer { link, deliveries, tags, address, names }))
}

/// The broker speaks AMQP, as it did until now; but a message has properties that are no text where text belongs.
fn is_unreadable(error: &lapin::Error) -> bool {
    matches!(error.kind(), lapin::ErrorKind::ParsingError(_))
}

fn broken(address: &str, error: &lapin::Error) -> QueueError {
    match is_unreadable(error) {
        true => lost(address, "it delivered a message whose properties cannot be read"),
        false => lost(address, explain(error)),
    }
}

struct RabbitConsumer {
    /// Dropping the connection would end the consumer.
    link: Link,
    /// `None` when one of them has ended.
    deliveries: SelectAll<BoxStream<'static, Option<lapin::Result<lapin::message::Delivery>>>>,
    tags: Vec<ShortString>,
    address: String,
    names: Names,
}

#[async_trait]
impl Consumer for RabbitConsumer {
    async fn next(&mut self) -> Result<Delivery, QueueError> {
        let mut delivery = match self.deliveries.next().await.flatten() {
            Some(Ok(delivery)) => delivery,
            Some(Err(error)) => return Err(broken(&self.address, &error)),
            None => return Err(lost(&self.address, "the broker ended the subscription")),
        };
        let fallen = delivery.routing_key.as_str() == self.names.fallen();
        let properties = &delivery.properties;
        Ok(Delivery {
            attempt: headers::earlier_deliveries(&delivery).saturating_add(1),
            message_id: properties.message_id().as_ref().map(ToString::to_string),
            kind: properties.kind().as_ref().map(ToString::to_string),
            queue: if fallen {
                self.names.origin(headers::origin(properties))
            } else {
                delivery.routing_key.to_string()
            },
            published_ms: headers::published_ms(properties),
            traceparent: headers::traceparent(properties),
            fallen,
            body: std::mem::take(&mut delivery.data),
            settle: Box::new(Unsettled { delivery: Some(delivery), address: self.address.clone() }),
        })
    }

    async fn stop(&mut self) {
        // If it fails, or is not answered, the connection is gone, and with it the subscription.
        let cancel = async {
            for tag in &self.tags {
                let _ = self.link.channel.basic_cancel(tag.clone(), BasicCancelOptions::default()).await;
            }
        };
        let _ = timeout(ANSWER_WITHIN, cancel).await;
    }
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
        let sent = match settlement {
            Settlement::Ack => delivery.ack(BasicAckOptions::default()).await,
            Settlement::GiveBack => delivery.reject(REQUEUE).await,
        };
        match sent {
            Ok(true) => Ok(()),
            // The connection is gone, and with it the delivery: the broker delivers it again.
            Ok(false) => Err(lost(&self.address, "the delivery could not be settled")),
            Err(error) => Err(lost(&self.address, explain(&error))),
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
