//! Messages that no client of ours would send: copies, and poison.

use std::time::Duration;

use fastrand::Rng;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::{BasicProperties, Channel, Confirmation, Connection, ConnectionProperties};
use serde_json::json;
use tribunal_shared::request::RequestId;
use tribunal_tests::requests::request;

const CONFIRMED_WITHIN: Duration = Duration::from_secs(30);
const PERSISTENT: u8 = 2;

/// Speaks AMQP without our client.
pub struct Wire {
    url: String,
    queue: String,
    link: Option<(Connection, Channel)>,
}

pub struct Raw {
    pub body: Vec<u8>,
    pub properties: BasicProperties,
}

impl Wire {
    pub fn new(url: &str, queue_name: &str) -> Self {
        Self { url: url.into(), queue: format!("{queue_name}.requests"), link: None }
    }

    /// Whether the broker has it for sure.
    pub async fn publish(&mut self, message: &Raw) -> bool {
        let published = async {
            let channel = self.channel().await?;
            let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
            let properties = message.properties.clone().with_delivery_mode(PERSISTENT);
            let queue = self.queue.as_str().into();
            channel.basic_publish("".into(), queue, options, &message.body, properties).await?.await
        };
        match tokio::time::timeout(CONFIRMED_WITHIN, published).await {
            Ok(Ok(Confirmation::Ack(None))) => true,
            _ => {
                self.link = None;
                false
            }
        }
    }

    async fn channel(&mut self) -> lapin::Result<Channel> {
        if let Some((_, channel)) = self.link.as_ref().filter(|(_, channel)| channel.status().connected()) {
            return Ok(channel.clone());
        }
        let connection = Connection::connect(&self.url, ConnectionProperties::default()).await?;
        let channel = connection.create_channel().await?;
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        self.link = Some((connection, channel.clone()));
        Ok(channel)
    }
}

/// A message that is no request.
pub struct Poison {
    pub name: &'static str,
    pub message: Raw,
    /// Whose result says what is wrong with it; nobody's if it cannot be told.
    pub id: Option<String>,
}

pub fn poison(rng: &mut Rng) -> Poison {
    let id = String::from(RequestId::generate());
    let properties = BasicProperties::default();
    let named = properties.clone().with_message_id(id.as_str().into());
    let (name, body, properties, id) = match rng.u8(0..5) {
        0 => ("not JSON", b"{\"code\": \"print(1)\", ".to_vec(), properties, None),
        1 => ("not JSON, but with an id", b"\xff\xfe[[[".to_vec(), named, Some(id)),
        2 => {
            let body = json!({ "request_id": id, "code": ["print(1)"], "language": 7, "test_cases": "none" });
            ("of wrong types", body.to_string().into_bytes(), properties, Some(id))
        }
        3 => {
            let body = json!({ "code": "print(1)", "language": "python", "test_cases": [{ "expected_output": "1" }] });
            ("without an id", body.to_string().into_bytes(), properties, None)
        }
        _ => {
            let body = serde_json::to_vec(&request("python", "print(1)", &[("", "1")])).expect("a request is JSON");
            ("of an unknown kind", body, properties.with_type("tomorrow's request".into()), None)
        }
    };
    Poison { name, message: Raw { body, properties }, id }
}
