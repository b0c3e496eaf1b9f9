//! What a message says of itself beside its body.

use lapin::BasicProperties;
use lapin::message::Delivery;
use lapin::types::{AMQPValue, FieldTable};

pub const TRACEPARENT: &str = "traceparent";
const LONGEST_TRACEPARENT: usize = 256;
/// AMQP's own time stamp counts seconds.
pub const PUBLISHED_MS: &str = "tribunal-published-ms";
/// The queue that a message was taken from before it was put aside.
pub const QUEUE: &str = "tribunal-queue";
pub const REASON: &str = "tribunal-reason";
/// As JSON.
pub const ATTEMPTS: &str = "tribunal-attempts";
pub const DIED_AT_MS: &str = "tribunal-died-at-ms";
/// Written by the broker on what it gave up.
const FIRST_DEATH_QUEUE: &str = "x-first-death-queue";
const DELIVERY_COUNT: &str = "x-delivery-count";

fn get<'a>(properties: &'a BasicProperties, name: &str) -> Option<&'a AMQPValue> {
    properties.headers().as_ref()?.inner().get(name)
}

pub fn text(properties: &BasicProperties, name: &str) -> Option<String> {
    match get(properties, name)? {
        AMQPValue::LongString(text) => Some(String::from_utf8_lossy(text.as_bytes()).into_owned()),
        AMQPValue::ShortString(text) => Some(text.to_string()),
        _ => None,
    }
}

/// Brokers and clients write whole numbers in every width.
pub fn number(properties: &BasicProperties, name: &str) -> Option<u64> {
    let number = match *get(properties, name)? {
        AMQPValue::LongLongInt(number) => number,
        AMQPValue::LongInt(number) => number.into(),
        AMQPValue::LongUInt(number) => number.into(),
        AMQPValue::ShortInt(number) => number.into(),
        AMQPValue::ShortShortInt(number) => number.into(),
        _ => return None,
    };
    u64::try_from(number).ok()
}

/// The queue that a message was published to before it was put aside, as it says itself.
pub fn origin(properties: &BasicProperties) -> Option<String> {
    text(properties, QUEUE).or_else(|| text(properties, FIRST_DEATH_QUEUE))
}

/// One that is longer than any is none; it would travel on with the message, where there is not much room.
pub fn traceparent(properties: &BasicProperties) -> Option<String> {
    text(properties, TRACEPARENT).filter(|traceparent| traceparent.len() <= LONGEST_TRACEPARENT)
}

/// Quorum queues count deliveries in a header, which is absent on the first; one that is there all the same was written by
/// the producer.
pub fn earlier_deliveries(delivery: &Delivery) -> u32 {
    if !delivery.redelivered {
        return 0;
    }
    number(&delivery.properties, DELIVERY_COUNT).and_then(|count| u32::try_from(count).ok()).unwrap_or(1)
}

/// When it was published: our own header, or else AMQP's time stamp.
pub fn published_ms(properties: &BasicProperties) -> Option<u64> {
    number(properties, PUBLISHED_MS).or_else(|| properties.timestamp().map(|seconds| seconds.saturating_mul(1000)))
}

/// Those that are there, as a table.
pub fn table<const N: usize>(entries: [(&str, Option<AMQPValue>); N]) -> FieldTable {
    let mut table = FieldTable::default();
    for (name, value) in entries {
        if let Some(value) = value {
            table.insert(name.into(), value);
        }
    }
    table
}

pub fn of_text(text: impl AsRef<str>) -> AMQPValue {
    AMQPValue::LongString(text.as_ref().into())
}

pub fn of_number(number: u64) -> AMQPValue {
    AMQPValue::LongLongInt(i64::try_from(number).unwrap_or(i64::MAX))
}
