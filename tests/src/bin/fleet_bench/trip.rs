//! The way of a request with nothing of ours on it: publish → consume → SET and PUBLISH → the one who waits hears of it.

use std::time::Instant;

use futures_util::StreamExt;
use lapin::options::{BasicAckOptions, BasicConsumeOptions};
use lapin::types::FieldTable;
use redis::aio::{MultiplexedConnection, PubSub};
use tribunal_tests::requests::request;
use tribunal_tests::{Fleet, Ground};

use crate::bare::{Bare, Message};

pub struct Trip {
    bare: Bare,
    answers: PubSub,
    /// Of queues of the fleet's kind, until the end.
    _fleet: Fleet,
}

impl Trip {
    pub async fn new() -> Self {
        let fleet = Fleet::on(Ground::Host, "store.result_ttl_s = 300\n").await;
        fleet.client.submit(request("bash", "echo 42", &[("", "42")])).await.expect("the request is accepted");
        let bare = Bare::like(&fleet).await;
        let client = redis::Client::open(fleet.services.redis.as_str()).expect("the store's address");
        let mut answers = client.get_async_pubsub().await.expect("the store");
        answers.subscribe(&bare.queue).await.expect("a subscription");

        let options = BasicConsumeOptions::default();
        let taken = bare.channel.basic_consume(bare.queue.as_str().into(), "".into(), options, FieldTable::default());
        let taken = taken.await.expect("a consumer");
        let store = client.get_multiplexed_async_connection().await.expect("the store");
        tokio::spawn(answer(taken, store, bare.queue.clone()));
        Self { bare, answers, _fleet: fleet }
    }

    /// How long it took, in ms.
    pub async fn make(&mut self) -> f64 {
        let request = request("bash", "echo 42", &[("", "42")]);
        let body = serde_json::to_vec(&request).expect("a request has only string keys");
        let id = request.request_id.expect("a request of ours has an id");
        let message = Message { id: id.clone(), body };
        let began = Instant::now();
        let confirm = self.bare.send(&message).await;
        let answer = self.answers.on_message().next().await.expect("an answer");
        let took = began.elapsed().as_secs_f64() * 1000.0;
        assert_eq!(answer.get_payload::<String>().expect("a text"), id);
        confirm.await.expect("the broker answers");
        took
    }
}

/// What a worker would do that has nothing to judge.
async fn answer(mut taken: lapin::Consumer, mut store: MultiplexedConnection, channel: String) {
    while let Some(Ok(delivery)) = taken.next().await {
        let id = delivery.properties.message_id().as_ref().expect("an id").to_string();
        let mut commands = redis::pipe();
        commands.set_ex(format!("{channel}:{id}"), &delivery.data, 60).ignore().publish(&channel, &id).ignore();
        commands.query_async::<()>(&mut store).await.expect("the store answers");
        delivery.ack(BasicAckOptions::default()).await.expect("the broker takes an ack");
    }
}
