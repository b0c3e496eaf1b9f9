//! One suite of promises, kept by every queue: `memory::…` and `rabbitmq::…`.
#![allow(clippy::unwrap_used)]

mod failures;
mod promises;
mod proxy;
#[path = "../support/mod.rs"]
mod support;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use lapin::options::QueueDeleteOptions;
use lapin::{Connection, ConnectionProperties};
use tribunal_shared::config::QueueSettings;
use tribunal_shared::queue::{self, Broker};

async fn on_memory<F: Future<Output = ()>>(promise: impl FnOnce(Arc<dyn Broker>) -> F) {
    let settings = QueueSettings { url: "memory://".into(), name: "test".into(), separate: vec!["rust".into()] };
    promise(queue::connect(&settings).unwrap()).await;
}

async fn on_rabbitmq<F: Future<Output = ()>>(promise: impl FnOnce(Arc<dyn Broker>) -> F) {
    with_queues(|settings| promise(queue::connect(&settings).unwrap())).await;
}

const QUEUES: [&str; 10] = [
    "requests",
    "requests.high",
    "requests.low",
    "rust.requests",
    "rust.requests.high",
    "rust.requests.low",
    "fallen",
    "dead",
    "parked",
    "unanswered",
];

/// Queues of one test's own, deleted whether it passes or not.
async fn with_queues<F: Future<Output = ()>>(test: impl FnOnce(QueueSettings) -> F) {
    let name = format!("test-{}", uuid::Uuid::new_v4());
    let settings = QueueSettings { url: support::service("TEST_AMQP_URL"), name, separate: vec!["rust".into()] };
    let outcome = AssertUnwindSafe(test(settings.clone())).catch_unwind().await;
    let connection = raw(&settings.url).await;
    let channel = connection.create_channel().await.unwrap();
    for queue in QUEUES {
        let queue = format!("{}.{queue}", settings.name);
        channel.queue_delete(queue.into(), QueueDeleteOptions::default()).await.unwrap();
    }
    outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

/// A client that is not ours.
async fn raw(url: &str) -> Connection {
    Connection::connect(url, ConnectionProperties::default()).await.expect("RabbitMQ can be reached")
}

macro_rules! contract {
    ($($promise:ident,)*) => {
        mod memory {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $promise() {
                super::on_memory(super::promises::$promise).await;
            })*
        }

        mod rabbitmq {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $promise() {
                super::on_rabbitmq(super::promises::$promise).await;
            })*
        }
    };
}

contract! {
    a_message_is_delivered_with_its_body_and_its_id,
    a_message_waits_for_somebody_to_take_it,
    messages_arrive_in_their_order,
    no_more_are_delivered_than_may_be_unsettled,
    an_acked_message_never_comes_again,
    a_message_given_back_comes_again_as_the_next_attempt,
    a_message_given_back_too_often_is_a_dead_letter,
    what_fell_is_answered_and_never_comes_again,
    a_dead_letter_is_kept_with_its_history,
    dead_letters_are_looked_at_again_and_again,
    a_dead_letter_is_requeued_once,
    a_dead_letter_is_dropped_and_its_neighbours_are_not,
    another_body_under_the_same_key_stays,
    however_much_there_is_to_tell_a_letter_is_buried,
    what_was_parked_goes_back_when_it_is_known,
    each_priority_has_its_own_room,
    a_language_with_a_queue_of_its_own_can_be_had_alone,
    many_at_once_are_published_in_order,
    a_trace_is_carried_along,
    a_dropped_delivery_comes_again,
    what_a_dropped_consumer_never_looked_at_is_not_lost,
    who_gives_up_in_the_middle_of_a_subscription_takes_nothing,
    a_stopped_consumer_takes_no_more_and_can_still_settle,
    two_consumers_share_the_messages,
    two_that_wait_are_both_woken,
    many_publish_at_once_and_everything_arrives_once,
    a_body_of_1_mib_arrives,
    any_bytes_arrive_unchanged,
    who_consumes_is_counted_until_they_stop_or_leave,
}
