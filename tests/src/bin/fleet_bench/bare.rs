//! The broker without us: one connection, and nothing on top of it.

use std::collections::VecDeque;

use lapin::options::{BasicGetOptions, BasicPublishOptions, ConfirmSelectOptions, QueuePurgeOptions};
use lapin::{BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, PublisherConfirm};
use tribunal_tests::Fleet;

/// As many as the client of the fleet has under way at once.
const UNDER_WAY: usize = 1024;

pub struct Bare {
    _connection: Connection,
    pub channel: Channel,
    pub queue: String,
    properties: BasicProperties,
}

pub struct Message {
    pub id: String,
    pub body: Vec<u8>,
}

impl Bare {
    /// On the fleet's own queue, with the properties of its own messages: those of the first one there, which is taken.
    pub async fn like(fleet: &Fleet) -> Self {
        let connection = Connection::connect(&fleet.services.amqp, ConnectionProperties::default());
        let connection = connection.await.expect("the broker");
        let channel = connection.create_channel().await.expect("a channel");
        channel.confirm_select(ConfirmSelectOptions::default()).await.expect("confirms");
        let queue = format!("{}.requests", fleet.settings.queue.name);
        let sample = channel.basic_get(queue.as_str().into(), BasicGetOptions { no_ack: true }).await;
        let sample = sample.expect("the queue").expect("a message of the fleet's own");
        Self { _connection: connection, channel, queue, properties: sample.delivery.properties }
    }

    pub async fn send(&self, message: &Message) -> PublisherConfirm {
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let properties = self.properties.clone().with_message_id(message.id.as_str().into());
        let sent =
            self.channel.basic_publish("".into(), self.queue.as_str().into(), options, &message.body, properties);
        sent.await.expect("the broker takes it")
    }

    /// Returns when the broker has confirmed all.
    pub async fn send_all(&self, messages: &[Message]) {
        let mut under_way = VecDeque::with_capacity(UNDER_WAY);
        for message in messages {
            if under_way.len() == UNDER_WAY {
                confirmed(under_way.pop_front()).await;
            }
            under_way.push_back(self.send(message).await);
        }
        while let Some(sent) = under_way.pop_front() {
            confirmed(Some(sent)).await;
        }
    }

    /// Says how many there were.
    pub async fn purge(&self) -> u32 {
        self.channel.queue_purge(self.queue.as_str().into(), QueuePurgeOptions::default()).await.expect("the queue")
    }
}

async fn confirmed(sent: Option<PublisherConfirm>) {
    if let Some(sent) = sent {
        assert_eq!(sent.await.expect("the broker answers"), Confirmation::Ack(None));
    }
}
