//! Publishing: a message counts as accepted when the broker has confirmed it, and only then.

use std::time::Duration;

use futures_util::future::join_all;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::{BasicProperties, Confirmation, Connection, PublisherConfirm};
use tokio::time::{Instant, sleep, timeout};

use super::super::{DeadLetter, Delivery, EXECUTION_REQUEST, Message, Names, QueueError, now_ms};
use super::{Link, RabbitMq, explain, headers};

/// A confirm waits for a majority of the quorum queue's disks.
const CONFIRM_WITHIN: Duration = Duration::from_secs(30);
/// A quorum queue that another client is just declaring, or whose node was lost, has no leader for a moment. It nacks
/// what is published then.
const LEADERLESS_FOR: Duration = Duration::from_secs(2);
const LEADERLESS_PAUSE: Duration = Duration::from_millis(50);
/// The broker says that it blocks only when somebody publishes, and then no confirm comes.
const BLOCKED_SEEN_WITHIN: Duration = Duration::from_millis(50);
const PERSISTENT: u8 = 2;

/// A message for one queue.
pub struct Outgoing {
    queue: String,
    body: Vec<u8>,
    properties: BasicProperties,
}

fn persistent_json() -> BasicProperties {
    BasicProperties::default().with_delivery_mode(PERSISTENT).with_content_type("application/json".into())
}

/// As the producer set them.
fn own(properties: BasicProperties, id: Option<&str>, kind: Option<&str>) -> BasicProperties {
    let properties = match id {
        Some(id) => properties.with_message_id(id.into()),
        None => properties,
    };
    match kind {
        Some(kind) => properties.with_type(kind.into()),
        None => properties,
    }
}

impl Outgoing {
    pub fn request(message: Message, names: &Names) -> Self {
        let headers = headers::table([
            (headers::PUBLISHED_MS, Some(headers::of_number(now_ms()))),
            (headers::TRACEPARENT, message.traceparent.map(headers::of_text)),
        ]);
        let properties = own(persistent_json(), Some(message.id.as_str()), Some(EXECUTION_REQUEST));
        Self {
            queue: names.requests(Some(&message.language), message.priority),
            body: message.body,
            properties: properties.with_headers(headers),
        }
    }

    pub fn dead(letter: &DeadLetter, names: &Names) -> Self {
        let attempts = serde_json::to_string(&letter.attempts).expect("attempts have only string keys");
        let headers = headers::table([
            (headers::QUEUE, Some(headers::of_text(&letter.queue))),
            (headers::REASON, Some(headers::of_text(&letter.reason))),
            (headers::ATTEMPTS, Some(headers::of_text(attempts))),
            (headers::DIED_AT_MS, Some(headers::of_number(letter.died_at_ms))),
            (headers::TRACEPARENT, letter.traceparent.as_ref().map(headers::of_text)),
        ]);
        let properties = own(persistent_json(), letter.id.as_deref(), letter.kind.as_deref()).with_headers(headers);
        Self { queue: names.dead(), body: letter.body.clone(), properties }
    }

    /// A dead letter, back to where it came from.
    pub fn requeued(letter: DeadLetter) -> Self {
        let headers = headers::table([
            (headers::PUBLISHED_MS, Some(headers::of_number(now_ms()))),
            (headers::TRACEPARENT, letter.traceparent.map(headers::of_text)),
        ]);
        let properties = own(persistent_json(), letter.id.as_deref(), letter.kind.as_deref()).with_headers(headers);
        Self { queue: letter.queue, body: letter.body, properties }
    }

    pub fn parked(delivery: &Delivery, names: &Names) -> Self {
        let headers = headers::table([
            (headers::QUEUE, Some(headers::of_text(&delivery.queue))),
            (headers::PUBLISHED_MS, delivery.published_ms.map(headers::of_number)),
            (headers::TRACEPARENT, delivery.traceparent.as_ref().map(headers::of_text)),
        ]);
        let properties = own(persistent_json(), delivery.message_id.as_deref(), delivery.kind.as_deref());
        Self { queue: names.parked(), body: delivery.body.clone(), properties: properties.with_headers(headers) }
    }

    /// The same message, for another queue.
    pub fn moved(delivery: &lapin::message::Delivery, queue: String) -> Self {
        Self { queue, body: delivery.data.clone(), properties: delivery.properties.clone() }
    }
}

impl RabbitMq {
    async fn publisher(&self) -> Result<Link, QueueError> {
        let connect = async {
            let mut publisher = self.publisher.lock().await;
            if let Some(link) = publisher.as_ref().filter(|link| link.channel.status().connected()) {
                return Ok(link.clone());
            }
            let link = self.link("publisher").await?;
            link.channel.confirm_select(ConfirmSelectOptions::default()).await?;
            *publisher = Some(link.clone());
            Ok(link)
        };
        self.soon(connect).await
    }

    fn refused(&self, reason: &str) -> QueueError {
        QueueError::NotAccepted { address: self.address.clone(), reason: reason.into() }
    }

    fn unconfirmed(&self, reason: &str) -> QueueError {
        QueueError::Unconfirmed { address: self.address.clone(), reason: reason.into() }
    }
}

pub async fn one(broker: &RabbitMq, message: Outgoing) -> Result<(), QueueError> {
    all(broker, vec![message]).await.into_iter().next().unwrap_or(Ok(()))
}

/// All are on their way before the first confirm is waited for.
pub async fn all(broker: &RabbitMq, messages: Vec<Outgoing>) -> Vec<Result<(), QueueError>> {
    let link = match broker.publisher().await {
        Ok(link) if link.connection.0.status().blocked() => {
            return messages.iter().map(|_| Err(broker.refused(BLOCKED))).collect();
        }
        Ok(link) => link,
        Err(error) => {
            let mut first = Some(error);
            let reason = first.as_ref().map(ToString::to_string).unwrap_or_default();
            return messages.iter().map(|_| Err(first.take().unwrap_or_else(|| broker.refused(&reason)))).collect();
        }
    };
    let confirmed = async {
        // A blocked connection takes no more than one.
        let mut sent = Vec::with_capacity(messages.len());
        for message in &messages {
            sent.push(send(&link, message).await);
        }
        join_all(messages.iter().zip(sent).map(|(message, sent)| accepted(broker, &link, message, sent))).await
    };
    tokio::select! {
        confirmed = timeout(CONFIRM_WITHIN, confirmed) => confirmed.unwrap_or_else(|_| {
            let late = format!("no answer within {} s", CONFIRM_WITHIN.as_secs());
            messages.iter().map(|_| Err(broker.unconfirmed(&late))).collect()
        }),
        () = blocked(&link.connection.0) => messages.iter().map(|_| Err(broker.unconfirmed(BLOCKED))).collect(),
    }
}

const BLOCKED: &str = "it is short of memory or disk and takes nothing now, try again later";

async fn blocked(connection: &Connection) {
    while !connection.status().blocked() {
        sleep(BLOCKED_SEEN_WITHIN).await;
    }
}

async fn send(link: &Link, message: &Outgoing) -> lapin::Result<PublisherConfirm> {
    // Mandatory: a message that no queue takes must not vanish.
    let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
    let Outgoing { queue, body, properties } = message;
    link.channel.basic_publish("".into(), queue.as_str().into(), options, body, properties.clone()).await
}

/// What the broker says to a message that is on its way. While the queue has no leader, it is sent again.
async fn accepted(
    broker: &RabbitMq,
    link: &Link,
    message: &Outgoing,
    mut sent: lapin::Result<PublisherConfirm>,
) -> Result<(), QueueError> {
    let nacked_until = Instant::now() + LEADERLESS_FOR;
    loop {
        let answer = match sent {
            Ok(confirm) => confirm.await,
            Err(error) => Err(error),
        };
        return match answer {
            Ok(Confirmation::Ack(None)) => Ok(()),
            Ok(Confirmation::Ack(Some(_))) => {
                // Somebody deleted it; the next connection declares it again.
                *broker.publisher.lock().await = None;
                Err(broker.refused("no queue takes it"))
            }
            Ok(Confirmation::Nack(_)) if Instant::now() < nacked_until => {
                sleep(LEADERLESS_PAUSE).await;
                sent = send(link, message).await;
                continue;
            }
            Ok(Confirmation::Nack(_)) => Err(broker.refused("the queue is full or has no leader")),
            Ok(Confirmation::NotRequested) => Err(broker.unconfirmed("it was not asked to")),
            Err(error) => Err(broker.unconfirmed(&explain(&error))),
        };
    }
}
