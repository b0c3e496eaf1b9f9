//! The queues, declared by whoever comes first.

use lapin::Channel;
use lapin::options::QueueDeclareOptions;
use lapin::types::{AMQPValue, FieldTable};

use super::super::{DELIVERY_LIMIT, Names};

/// Looking at a message counts as a delivery; these may be looked at as often as anybody likes. There is a limit because
/// from RabbitMQ 4 on there is one by default.
const LOOKED_AT: i32 = 1_000_000_000;

pub async fn all(channel: &Channel, names: &Names) -> lapin::Result<()> {
    let declare = async |name: &str, arguments: FieldTable| {
        channel.queue_declare(name.into(), QueueDeclareOptions::durable(), arguments).await.map(drop)
    };
    declare(&names.dead(), quorum(LOOKED_AT)).await?;
    declare(&names.parked(), quorum(LOOKED_AT)).await?;
    // What brings down whoever wants to answer it must not do the same to those who look at dead letters.
    declare(&names.unanswered(), quorum(LOOKED_AT)).await?;
    declare(&names.fallen(), falling_to(&names.unanswered())).await?;
    for requests in names.requests_of(&[]) {
        declare(&requests, falling_to(&names.fallen())).await?;
    }
    Ok(())
}

fn text(value: &str) -> AMQPValue {
    AMQPValue::LongString(value.into())
}

fn quorum(delivery_limit: i32) -> FieldTable {
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), text("quorum"));
    arguments.insert("x-delivery-limit".into(), AMQPValue::LongInt(delivery_limit));
    arguments
}

/// What is delivered too often goes to the queue `below`.
fn falling_to(below: &str) -> FieldTable {
    let mut arguments = quorum(DELIVERY_LIMIT as i32);
    arguments.insert("x-dead-letter-exchange".into(), text(""));
    arguments.insert("x-dead-letter-routing-key".into(), text(below));
    // At-least-once: a message leaves this queue only when the other one has it, which needs reject-publish.
    arguments.insert("x-dead-letter-strategy".into(), text("at-least-once"));
    arguments.insert("x-overflow".into(), text("reject-publish"));
    arguments
}
