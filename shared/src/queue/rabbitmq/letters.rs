//! What was put aside: dead letters and parked messages, as an operator or a newer worker finds them.
//!
//! A quorum queue can only be read by taking messages from it. Whatever is not acked stands in its old place again as soon
//! as the channel closes; meanwhile nobody else sees it.

use std::collections::HashMap;

use lapin::message::Delivery;
use lapin::options::{BasicAckOptions, BasicGetOptions};
use tokio::time::timeout;

use super::super::{DeadLetter, Fate, Names, QueueError, is_known};
use super::publish::{self, Outgoing};
use super::{ANSWER_WITHIN, Link, RabbitMq, explain, headers, lost};

/// Takes messages off a queue, the oldest first.
struct Reader<'a> {
    broker: &'a RabbitMq,
    link: Link,
    queue: String,
}

impl<'a> Reader<'a> {
    async fn of(broker: &'a RabbitMq, queue: String) -> Result<Self, QueueError> {
        let link = broker.soon(broker.link("operator")).await?;
        Ok(Self { broker, link, queue })
    }

    async fn next(&self) -> Result<Option<Delivery>, QueueError> {
        let get = self.link.channel.basic_get(self.queue.as_str().into(), BasicGetOptions::default());
        match timeout(ANSWER_WITHIN, get).await {
            Ok(Ok(message)) => Ok(message.map(|message| message.delivery)),
            Ok(Err(error)) => Err(lost(&self.broker.address, explain(&error))),
            Err(_) => Err(lost(&self.broker.address, "no answer")),
        }
    }

    /// Takes a message away for good.
    async fn remove(&self, delivery: &Delivery) -> Result<(), QueueError> {
        match delivery.ack(BasicAckOptions::default()).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(lost(&self.broker.address, "a message could not be taken away")),
            Err(error) => Err(lost(&self.broker.address, explain(&error))),
        }
    }

    /// Returns when whatever was not removed is back, and what was removed is gone.
    async fn close(self) {
        let _ = timeout(ANSWER_WITHIN, self.link.channel.close(200, "done".into())).await;
    }
}

fn letter(delivery: &Delivery, names: &Names) -> DeadLetter {
    let properties = &delivery.properties;
    let attempts = headers::text(properties, headers::ATTEMPTS);
    DeadLetter {
        id: properties.message_id().as_ref().map(ToString::to_string),
        body: delivery.data.clone(),
        kind: properties.kind().as_ref().map(ToString::to_string),
        queue: names.origin(headers::origin(properties)),
        // Without one it comes from the broker itself, which has none but that.
        reason: headers::text(properties, headers::REASON).unwrap_or_else(|| "delivered too often".into()),
        attempts: attempts.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default(),
        died_at_ms: headers::number(properties, headers::DIED_AT_MS).unwrap_or_default(),
        traceparent: headers::traceparent(properties),
    }
}

pub async fn look(broker: &RabbitMq, most: usize) -> Result<Vec<DeadLetter>, QueueError> {
    let dead = Reader::of(broker, broker.names.dead()).await?;
    let mut letters = Vec::new();
    while letters.len() < most
        && let Some(delivery) = dead.next().await?
    {
        letters.push(letter(&delivery, &broker.names));
    }
    dead.close().await;
    Ok(letters)
}

pub async fn exhume(broker: &RabbitMq, keys: &[String], fate: Fate) -> Result<Vec<usize>, QueueError> {
    let dead = Reader::of(broker, broker.names.dead()).await?;
    let places: HashMap<_, _> = keys.iter().enumerate().map(|(place, key)| (key.as_str(), place)).collect();
    let mut found: Vec<Vec<_>> = keys.iter().map(|_| Vec::new()).collect();
    while let Some(delivery) = dead.next().await? {
        let letter = letter(&delivery, &broker.names);
        if let Some(place) = places.get(letter.key().as_str()) {
            let copies = &mut found[*place];
            if copies.first().is_none_or(|(_, oldest): &(Delivery, DeadLetter)| oldest.body == letter.body) {
                copies.push((delivery, letter));
            }
        }
    }
    for copies in &found {
        // First it is safe where it goes, then it leaves the place where it was.
        if let (Fate::Requeue, Some((_, letter))) = (fate, copies.first()) {
            publish::one(broker, Outgoing::requeued(letter.clone())).await?;
        }
        for (delivery, _) in copies {
            dead.remove(delivery).await?;
        }
    }
    dead.close().await;
    Ok(found.iter().map(Vec::len).collect())
}

pub async fn unpark(broker: &RabbitMq) -> Result<usize, QueueError> {
    let parked = Reader::of(broker, broker.names.parked()).await?;
    let mut count = 0;
    while let Some(delivery) = parked.next().await? {
        let kind = delivery.properties.kind().as_ref().map(ToString::to_string);
        if is_known(kind.as_deref()) {
            let queue = broker.names.origin(headers::origin(&delivery.properties));
            publish::one(broker, Outgoing::moved(&delivery, queue)).await?;
            parked.remove(&delivery).await?;
            count += 1;
        }
    }
    parked.close().await;
    Ok(count)
}
