//! What every queue promises.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use tribunal_shared::queue::{Broker, Consumer, DeadLetter, Delivery, EXECUTION_REQUEST, Fate, Message};
use tribunal_shared::request::{Priority, RequestId};
use tribunal_shared::result::Attempt;

use crate::support::{not_now, soon, until};

type Queue = Arc<dyn Broker>;

pub fn message(id: &RequestId, body: &[u8]) -> Message {
    let (priority, language) = (Priority::Normal, "python".into());
    Message { id: id.clone(), body: body.to_vec(), priority, language, traceparent: None }
}

async fn publish(broker: &Queue, body: impl AsRef<[u8]>) -> RequestId {
    let id = RequestId::generate();
    soon(broker.publish(message(&id, body.as_ref()))).await.expect("the message is accepted");
    id
}

async fn consume(broker: &Queue, prefetch: u16) -> Box<dyn Consumer> {
    soon(broker.consume(&[], prefetch)).await.expect("the queue can be consumed")
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
    soon(first.ack()).await.unwrap();
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
    let fallen = next(&mut consumer).await;
    assert!(fallen.fallen, "it comes once more, to be answered");
    assert_eq!((text(&fallen), counts(&broker).await.0), ("poison", 0));
}

/// Takes the next delivery, looks at it and goes away without settling it.
async fn leave_with(mut consumer: Box<dyn Consumer>, expected: &str) {
    let delivery = next(&mut consumer).await;
    assert_eq!(text(&delivery), expected);
    // Or what is dropped would come straight back.
    soon(consumer.stop()).await;
}

/// Gives a message back until the broker gives it up.
async fn fall(consumer: &mut Box<dyn Consumer>) -> Delivery {
    loop {
        let delivery = next(consumer).await;
        if delivery.fallen {
            return delivery;
        }
        soon(delivery.give_back()).await.unwrap();
    }
}

pub async fn what_fell_is_answered_and_never_comes_again(broker: Queue) {
    let id = publish(&broker, "poison").await;
    let mut consumer = consume(&broker, 1).await;
    let fallen = fall(&mut consumer).await;
    assert_eq!((text(&fallen), fallen.message_id.as_deref()), ("poison", Some(id.as_str())));
    assert!(fallen.queue.ends_with(".requests"), "where it fell from: {}", fallen.queue);
    soon(fallen.ack()).await.unwrap();
    until(async || counts(&broker).await, |counts| *counts == (0, 0)).await;
    not_now(consumer.next()).await;
}

fn attempts() -> Vec<Attempt> {
    vec![Attempt { attempt: 1, worker: "w".into(), end: "its \"worker\" died".into() }]
}

/// Publishes a message, takes it and buries it.
async fn bury(broker: &Queue, body: &str) -> RequestId {
    let id = publish(broker, body).await;
    let mut consumer = consume(broker, 1).await;
    let delivery = next(&mut consumer).await;
    let letter = DeadLetter::of(&delivery, Some(&id), "no \u{1b} reason", attempts());
    soon(broker.bury(&letter)).await.unwrap();
    soon(delivery.ack()).await.unwrap();
    soon(consumer.stop()).await;
    id
}

async fn letters(broker: &Queue, most: usize) -> Vec<DeadLetter> {
    soon(broker.dead_letters(most)).await.unwrap()
}

pub async fn a_dead_letter_is_kept_with_its_history(broker: Queue) {
    let id = bury(&broker, "dead").await;
    until(async || counts(&broker).await, |counts| *counts == (0, 1)).await;
    let found = letters(&broker, 10).await;
    let [letter] = &found[..] else { panic!("{found:?}") };
    assert_eq!(letter.key(), id.as_str());
    assert_eq!((letter.body.as_slice(), letter.reason.as_str()), (b"dead".as_slice(), "no \u{1b} reason"));
    assert_eq!(letter.attempts, attempts());
    assert!(letter.queue.ends_with(".requests"), "{}", letter.queue);
    let age_ms = std::time::UNIX_EPOCH.elapsed().unwrap().as_millis() as i128 - i128::from(letter.died_at_ms);
    assert!((0..60_000).contains(&age_ms), "{age_ms}");
}

pub async fn dead_letters_are_looked_at_again_and_again(broker: Queue) {
    let mut ids = Vec::new();
    for body in ["a", "b", "c"] {
        ids.push(bury(&broker, body).await.to_string());
    }
    // More often than a request may be delivered.
    for _ in 0..25 {
        let keys: Vec<_> = letters(&broker, 10).await.iter().map(DeadLetter::key).collect();
        assert_eq!(keys, ids, "the oldest first");
    }
    assert_eq!(letters(&broker, 2).await.len(), 2);
    until(async || counts(&broker).await, |counts| *counts == (0, 3)).await;
}

pub async fn a_dead_letter_is_requeued_once(broker: Queue) {
    let id = bury(&broker, "again").await;
    // As after a crash between burying and acking.
    let twice = letters(&broker, 1).await.remove(0);
    soon(broker.bury(&twice)).await.unwrap();
    assert_eq!(soon(broker.exhume(id.as_str(), Fate::Requeue)).await.unwrap(), 2);
    let mut consumer = consume(&broker, 2).await;
    let delivery = next(&mut consumer).await;
    assert_eq!((text(&delivery), delivery.attempt), ("again", 1));
    assert_eq!(delivery.message_id.as_deref(), Some(id.as_str()));
    soon(delivery.ack()).await.unwrap();
    not_now(consumer.next()).await;
    until(async || counts(&broker).await, |counts| *counts == (0, 0)).await;
    assert_eq!(soon(broker.exhume(id.as_str(), Fate::Requeue)).await.unwrap(), 0);
}

pub async fn a_dead_letter_is_dropped_and_its_neighbours_are_not(broker: Queue) {
    let (first, second, third) = (bury(&broker, "a").await, bury(&broker, "b").await, bury(&broker, "c").await);
    assert_eq!(soon(broker.exhume("no such key", Fate::Drop)).await.unwrap(), 0);
    assert_eq!(soon(broker.exhume(second.as_str(), Fate::Drop)).await.unwrap(), 1);
    let keys: Vec<_> = letters(&broker, 10).await.iter().map(DeadLetter::key).collect();
    assert_eq!(keys, [first.to_string(), third.to_string()]);
    not_now(consume(&broker, 1).await.next()).await;
}

/// Two requests under one id cannot be told apart by it, and neither may take the other along.
pub async fn another_body_under_the_same_key_stays(broker: Queue) {
    let id = bury(&broker, "first").await;
    let first = letters(&broker, 1).await.remove(0);
    let second = DeadLetter { body: b"second".to_vec(), ..first.clone() };
    for letter in [&second, &first] {
        soon(broker.bury(letter)).await.unwrap();
    }
    assert_eq!(soon(broker.exhume(id.as_str(), Fate::Requeue)).await.unwrap(), 2, "the first and its copy");
    let left = letters(&broker, 10).await;
    assert_eq!(left.iter().map(|letter| letter.body.as_slice()).collect::<Vec<_>>(), [b"second"]);
    let mut consumer = consume(&broker, 2).await;
    let delivery = next(&mut consumer).await;
    assert_eq!(text(&delivery), "first");
    soon(delivery.ack()).await.unwrap();
    not_now(consumer.next()).await;
}

/// Beside a body there is not much room; what finds none there could never be put aside.
pub async fn however_much_there_is_to_tell_a_letter_is_buried(broker: Queue) {
    let id = publish(&broker, "dead").await;
    let mut consumer = consume(&broker, 1).await;
    let delivery = next(&mut consumer).await;
    let endless = "é".repeat(200_000);
    let attempts = (1..=500).map(|attempt| Attempt { attempt, worker: "w".into(), end: endless.clone() }).collect();
    let letter = DeadLetter::of(&delivery, Some(&id), &endless, attempts);
    soon(broker.bury(&letter)).await.unwrap();
    let found = letters(&broker, 10).await;
    assert_eq!(found, [letter]);
    assert!(found[0].reason.ends_with("é…") && found[0].reason.len() < 1010);
    assert_eq!(found[0].attempts.last().map(|last| last.attempt), Some(500), "the last are kept");
}

pub async fn what_was_parked_goes_back_when_it_is_known(broker: Queue) {
    assert_eq!(soon(broker.unpark()).await.unwrap(), 0);
    let id = publish(&broker, "for another version").await;
    let mut consumer = consume(&broker, 1).await;
    let mut delivery = next(&mut consumer).await;
    for (kind, all, back) in [("execution_request.v99", 1, 0), (EXECUTION_REQUEST, 2, 1)] {
        delivery.kind = Some(kind.to_owned());
        soon(broker.park(&delivery)).await.unwrap();
        until(async || broker.depth().await.unwrap().parked, |parked| *parked == all).await;
        assert_eq!(soon(broker.unpark()).await.unwrap(), back);
    }
    soon(delivery.ack()).await.unwrap();
    let delivery = next(&mut consumer).await;
    assert_eq!((text(&delivery), delivery.message_id.as_deref()), ("for another version", Some(id.as_str())));
    soon(delivery.ack()).await.unwrap();
    // The other one waits for a version that knows it.
    until(async || broker.depth().await.unwrap().parked, |parked| *parked == 1).await;
}

async fn publish_to(broker: &Queue, language: &str, priority: Priority, body: &str) {
    let message = Message { language: language.into(), priority, ..message(&RequestId::generate(), body.as_bytes()) };
    soon(broker.publish(message)).await.unwrap();
}

/// Or a backlog of one priority would keep the others away.
pub async fn each_priority_has_its_own_room(broker: Queue) {
    for body in ["1", "2", "3", "4"] {
        for priority in Priority::ALL {
            publish_to(&broker, "python", priority, &format!("{}{body}", priority.as_str())).await;
        }
    }
    let depth = soon(broker.depth()).await.unwrap();
    assert_eq!(depth.ready, 12);
    let waiting: Vec<_> = depth.queues.iter().map(|(name, ready)| (name.split_once('.').unwrap().1, *ready)).collect();
    let expected = [("requests.high", 4), ("requests", 4), ("requests.low", 4)];
    assert_eq!(waiting[..3], expected);
    assert!(waiting[3..].iter().all(|(_, ready)| *ready == 0), "{waiting:?}");

    let mut consumer = consume(&broker, 2).await;
    let mut deliveries = Vec::new();
    for _ in 0..7 {
        deliveries.push(next(&mut consumer).await);
    }
    let mut bodies: Vec<_> = deliveries.iter().map(text).collect();
    bodies.sort_unstable();
    assert_eq!(bodies, ["high1", "high2", "high3", "low1", "low2", "normal1", "normal2"], "one more of the urgent");
    not_now(consumer.next()).await;
    let high = deliveries.iter().position(|delivery| text(delivery) == "high1").unwrap();
    soon(deliveries.remove(high).ack()).await.unwrap();
    assert_eq!(text(&next(&mut consumer).await), "high4");
}

pub async fn a_language_with_a_queue_of_its_own_can_be_had_alone(broker: Queue) {
    publish_to(&broker, "python", Priority::Normal, "python").await;
    publish_to(&broker, "rust", Priority::Low, "rust").await;
    let mut bound = soon(broker.consume(&["rust".into()], 5)).await.unwrap();
    let delivery = next(&mut bound).await;
    assert_eq!(text(&delivery), "rust");
    soon(delivery.give_back()).await.unwrap();
    let delivery = next(&mut bound).await;
    assert_eq!((text(&delivery), delivery.attempt), ("rust", 2));
    not_now(bound.next()).await;
    drop((delivery, bound));
    // Who is bound to nothing takes all.
    let mut free = consume(&broker, 5).await;
    let (one, other) = (next(&mut free).await, next(&mut free).await);
    assert_eq!(HashSet::from([text(&one), text(&other)]), HashSet::from(["python", "rust"]));
}

pub async fn many_at_once_are_published_in_order(broker: Queue) {
    let messages = (0..500).map(|number| message(&RequestId::generate(), number.to_string().as_bytes()));
    let outcomes = soon(broker.publish_all(messages.collect())).await;
    assert_eq!(outcomes.len(), 500);
    outcomes.into_iter().for_each(|outcome| outcome.unwrap());
    let mut consumer = consume(&broker, 500).await;
    for number in 0..500 {
        let delivery = next(&mut consumer).await;
        assert_eq!(text(&delivery), number.to_string());
        soon(delivery.ack()).await.unwrap();
    }
    assert!(soon(broker.publish_all(Vec::new())).await.is_empty());
}

pub async fn a_trace_is_carried_along(broker: Queue) {
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned();
    let traced = Message { traceparent: Some(trace.clone()), ..message(&RequestId::generate(), b"x") };
    soon(broker.publish(traced)).await.unwrap();
    let mut consumer = consume(&broker, 1).await;
    let delivery = next(&mut consumer).await;
    assert_eq!(delivery.traceparent, Some(trace.clone()));
    let age_ms = std::time::UNIX_EPOCH.elapsed().unwrap().as_millis() as u64 - delivery.published_ms.unwrap();
    assert!(age_ms < 60_000, "{age_ms}");
    let letter = DeadLetter::of(&delivery, None, "x", Vec::new());
    soon(broker.bury(&letter)).await.unwrap();
    let letter = letters(&broker, 1).await.remove(0);
    assert_eq!(letter.traceparent, Some(trace));
    assert!(letter.key().starts_with("body-") || letter.id.is_some(), "{letter:?}");
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

pub async fn who_gives_up_in_the_middle_of_a_subscription_takes_nothing(broker: Queue) {
    const TIMES: u32 = 40;
    let begun = Instant::now();
    drop(consume(&broker, 1).await);
    let whole = begun.elapsed();
    for number in 0..TIMES {
        publish(&broker, number.to_string()).await;
    }
    for part in 0..TIMES {
        let _ = tokio::time::timeout(whole * part / TIMES, broker.consume(&[], 1)).await;
    }
    let mut consumer = consume(&broker, TIMES as u16).await;
    for _ in 0..TIMES {
        soon(next(&mut consumer).await.ack()).await.unwrap();
    }
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
