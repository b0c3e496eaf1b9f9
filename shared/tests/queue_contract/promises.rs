//! What every queue promises.

use std::collections::HashSet;
use std::sync::Arc;

use tribunal_shared::queue::{Broker, Consumer, Delivery, EXECUTION_REQUEST, Message};
use tribunal_shared::request::RequestId;

use crate::support::{not_now, soon, until};

type Queue = Arc<dyn Broker>;

async fn publish(broker: &Queue, body: impl AsRef<[u8]>) -> RequestId {
    let id = RequestId::generate();
    let message = Message { id: id.clone(), body: body.as_ref().to_vec() };
    soon(broker.publish(message)).await.expect("the message is accepted");
    id
}

async fn consume(broker: &Queue, prefetch: u16) -> Box<dyn Consumer> {
    soon(broker.consume(prefetch)).await.expect("the queue can be consumed")
}

async fn next(consumer: &mut Box<dyn Consumer>) -> Delivery {
    soon(consumer.next()).await.expect("a delivery")
}

/// Messages that wait, and dead letters.
async fn counts(broker: &Queue) -> (u64, u64) {
    let depth = soon(broker.depth()).await.expect("the queue can be looked at");
    (depth.ready, depth.dead)
}

fn text(delivery: &Delivery) -> &str {
    std::str::from_utf8(&delivery.body).unwrap()
}

pub async fn a_message_is_delivered_with_its_body_and_its_id(broker: Queue) {
    let mut consumer = consume(&broker, 1).await;
    let id = publish(&broker, "body").await;
    let delivery = next(&mut consumer).await;
    assert_eq!(text(&delivery), "body");
    assert_eq!(delivery.message_id.as_deref(), Some(id.as_str()));
    assert_eq!(delivery.attempt, 1);
    assert!(delivery.kind.as_deref().is_none_or(|kind| kind == EXECUTION_REQUEST));
    soon(delivery.ack()).await.unwrap();
}

pub async fn a_message_waits_for_somebody_to_take_it(broker: Queue) {
    for body in ["a", "b", "c"] {
        publish(&broker, body).await;
    }
    let depth = until(async || broker.depth().await.unwrap(), |depth| depth.ready == 3).await;
    assert_eq!(depth.dead, 0);
    let mut consumer = consume(&broker, 3).await;
    for body in ["a", "b", "c"] {
        let delivery = next(&mut consumer).await;
        assert_eq!(text(&delivery), body);
        soon(delivery.ack()).await.unwrap();
    }
    until(async || broker.depth().await.unwrap(), |depth| depth.ready == 0).await;
}

pub async fn messages_arrive_in_their_order(broker: Queue) {
    let mut consumer = consume(&broker, 7).await;
    for number in 0..50 {
        publish(&broker, number.to_string()).await;
    }
    for number in 0..50 {
        let delivery = next(&mut consumer).await;
        assert_eq!(text(&delivery), number.to_string());
        soon(delivery.ack()).await.unwrap();
    }
}

pub async fn no_more_are_delivered_than_may_be_unsettled(broker: Queue) {
    for number in 0..5 {
        publish(&broker, number.to_string()).await;
    }
    let mut consumer = consume(&broker, 2).await;
    let first = next(&mut consumer).await;
    let second = next(&mut consumer).await;
    not_now(consumer.next()).await;
    soon(second.ack()).await.unwrap();
    let third = next(&mut consumer).await;
    assert_eq!(text(&third), "2");
    not_now(consumer.next()).await;
    soon(first.dead_letter()).await.unwrap();
    assert_eq!(text(&next(&mut consumer).await), "3");
}

pub async fn an_acked_message_never_comes_again(broker: Queue) {
    publish(&broker, "acked").await;
    publish(&broker, "after").await;
    let mut consumer = consume(&broker, 1).await;
    soon(next(&mut consumer).await.ack()).await.unwrap();
    leave_with(consumer, "after").await;
    // What was unsettled comes again, in its old place; the acked one would stand before it.
    let mut consumer = consume(&broker, 1).await;
    let delivery = next(&mut consumer).await;
    assert_eq!((text(&delivery), delivery.attempt), ("after", 2));
    assert_eq!(counts(&broker).await, (0, 0));
}

pub async fn a_message_given_back_comes_again_as_the_next_attempt(broker: Queue) {
    let id = publish(&broker, "again").await;
    let mut consumer = consume(&broker, 1).await;
    for attempt in 1..=4 {
        let delivery = next(&mut consumer).await;
        assert_eq!((text(&delivery), delivery.attempt), ("again", attempt));
        assert_eq!(delivery.message_id.as_deref(), Some(id.as_str()));
        soon(delivery.give_back()).await.unwrap();
    }
    // The next attempt may as well be somebody else's.
    drop(consumer);
    let delivery = next(&mut consume(&broker, 1).await).await;
    assert!(delivery.attempt >= 5, "{}", delivery.attempt);
}

pub async fn a_message_given_back_too_often_is_a_dead_letter(broker: Queue) {
    publish(&broker, "poison").await;
    let mut consumer = consume(&broker, 1).await;
    for attempt in 1..=21 {
        let delivery = next(&mut consumer).await;
        assert_eq!(delivery.attempt, attempt);
        soon(delivery.give_back()).await.unwrap();
    }
    let depth = until(async || broker.depth().await.unwrap(), |depth| depth.dead == 1).await;
    assert_eq!(depth.ready, 0);
    not_now(consumer.next()).await;
}

/// Takes the next delivery, looks at it and goes away without settling it.
async fn leave_with(mut consumer: Box<dyn Consumer>, expected: &str) {
    let delivery = next(&mut consumer).await;
    assert_eq!(text(&delivery), expected);
    // Or what is dropped would come straight back.
    soon(consumer.stop()).await;
}

pub async fn a_dead_letter_is_one_once_and_never_comes_again(broker: Queue) {
    publish(&broker, "dead").await;
    publish(&broker, "after").await;
    let mut consumer = consume(&broker, 1).await;
    soon(next(&mut consumer).await.dead_letter()).await.unwrap();
    leave_with(consumer, "after").await;
    until(async || broker.depth().await.unwrap(), |depth| depth.dead == 1).await;
    let mut consumer = consume(&broker, 1).await;
    let delivery = next(&mut consumer).await;
    assert_eq!((text(&delivery), delivery.attempt), ("after", 2));
    assert_eq!(counts(&broker).await, (0, 1));
}

pub async fn a_dropped_delivery_comes_again(broker: Queue) {
    publish(&broker, "dropped").await;
    let mut consumer = consume(&broker, 1).await;
    drop(next(&mut consumer).await);
    let delivery = next(&mut consumer).await;
    assert_eq!((text(&delivery), delivery.attempt), ("dropped", 2));
    soon(delivery.ack()).await.unwrap();
}

pub async fn what_a_dropped_consumer_never_looked_at_is_not_lost(broker: Queue) {
    for number in 0..10 {
        publish(&broker, number.to_string()).await;
    }
    let mut consumer = consume(&broker, 10).await;
    soon(next(&mut consumer).await.ack()).await.unwrap();
    drop(consumer);
    let mut consumer = consume(&broker, 10).await;
    let mut left = HashSet::new();
    for _ in 1..10 {
        let delivery = next(&mut consumer).await;
        left.insert(text(&delivery).to_owned());
        soon(delivery.ack()).await.unwrap();
    }
    assert_eq!(left, (1..10).map(|number| number.to_string()).collect());
}

pub async fn a_stopped_consumer_takes_no_more_and_can_still_settle(broker: Queue) {
    publish(&broker, "at hand").await;
    let mut stopped = consume(&broker, 5).await;
    let at_hand = next(&mut stopped).await;
    soon(stopped.stop()).await;
    let mut other = consume(&broker, 5).await;
    for number in 0..5 {
        publish(&broker, number.to_string()).await;
        let delivery = next(&mut other).await;
        assert_eq!((text(&delivery), delivery.attempt), (number.to_string().as_str(), 1));
        soon(delivery.ack()).await.unwrap();
    }
    soon(at_hand.ack()).await.expect("it can still be settled");
    drop(stopped);
    not_now(other.next()).await;
}

pub async fn two_consumers_share_the_messages(broker: Queue) {
    let (mut one, mut other) = (consume(&broker, 1).await, consume(&broker, 1).await);
    publish(&broker, "a").await;
    publish(&broker, "b").await;
    // Neither settles its own, so neither can have taken both.
    let (mine, yours) = (next(&mut one).await, next(&mut other).await);
    assert_eq!(HashSet::from([text(&mine), text(&yours)]), HashSet::from(["a", "b"]));
    soon(mine.give_back()).await.unwrap();
    soon(yours.ack()).await.unwrap();
    let delivery = tokio::select! {
        delivery = next(&mut one) => delivery,
        delivery = next(&mut other) => delivery,
    };
    assert_eq!(delivery.attempt, 2);
}

/// Each holds what it got until both have one: a wake-up that got lost would let one wait for ever.
pub async fn two_that_wait_are_both_woken(broker: Queue) {
    let rounds = 300;
    let both = Arc::new(tokio::sync::Barrier::new(3));
    let wait = |mut consumer: Box<dyn Consumer>| {
        let both = Arc::clone(&both);
        tokio::spawn(async move {
            for round in 0..rounds {
                let delivery = next(&mut consumer).await;
                assert_eq!(text(&delivery), round.to_string());
                both.wait().await;
                soon(delivery.ack()).await.unwrap();
            }
        })
    };
    let waiting = [wait(consume(&broker, 1).await), wait(consume(&broker, 1).await)];
    for round in 0..rounds {
        let body = round.to_string();
        tokio::join!(publish(&broker, &body), publish(&broker, &body));
        soon(both.wait()).await;
    }
    for task in waiting {
        task.await.unwrap();
    }
}

pub async fn many_publish_at_once_and_everything_arrives_once(broker: Queue) {
    let publishers: Vec<_> = (0..20)
        .map(|publisher| {
            let broker = Arc::clone(&broker);
            tokio::spawn(async move {
                for number in 0..10 {
                    publish(&broker, format!("{publisher}/{number}")).await;
                }
            })
        })
        .collect();
    let mut consumer = consume(&broker, 50).await;
    let mut bodies = HashSet::new();
    for _ in 0..200 {
        let delivery = next(&mut consumer).await;
        assert!(bodies.insert(text(&delivery).to_owned()), "{} came twice", text(&delivery));
        soon(delivery.ack()).await.unwrap();
    }
    for publisher in publishers {
        publisher.await.unwrap();
    }
    until(async || counts(&broker).await, |counts| *counts == (0, 0)).await;
    not_now(consumer.next()).await;
}

pub async fn a_body_of_1_mib_arrives(broker: Queue) {
    let body: Vec<u8> = (0..1024 * 1024_usize).map(|index| (index % 251) as u8).collect();
    publish(&broker, &body).await;
    let delivery = next(&mut consume(&broker, 1).await).await;
    assert!(delivery.body == body, "{} bytes arrived, or others", delivery.body.len());
}

pub async fn any_bytes_arrive_unchanged(broker: Queue) {
    let bodies: [&[u8]; 4] = [b"a\0b\0", b"\xff\xfe\x80 no UTF-8", b"", b"\r\n{\"a\": \"\\u0000\"}"];
    let mut consumer = consume(&broker, 1).await;
    for body in bodies {
        publish(&broker, body).await;
        let delivery = next(&mut consumer).await;
        assert_eq!(delivery.body, body);
        soon(delivery.ack()).await.unwrap();
    }
}

pub async fn who_consumes_is_counted_until_they_stop_or_leave(broker: Queue) {
    let consumers = async || soon(broker.depth()).await.unwrap().consumers;
    assert_eq!(consumers().await, 0);
    let (mut stopping, leaving) = (consume(&broker, 1).await, consume(&broker, 1).await);
    until(&consumers, |count| *count == 2).await;
    soon(stopping.stop()).await;
    until(&consumers, |count| *count == 1).await;
    drop(leaving);
    until(&consumers, |count| *count == 0).await;
}
