//! Real services, with the test in the worker's place.

use std::process::{Command, Stdio};
use std::sync::Arc;

use tempfile::{TempDir, tempdir};
use tribunal_shared::config::Settings;
use tribunal_shared::queue::{self, Broker};
use tribunal_shared::request::{Digest, ExecutionRequest, RequestId};
use tribunal_shared::store::{self, Lease, ResultStore, Take};

use crate::common::{example, service, tribunal};

/// Queues of one test's own, and the store.
pub struct Fleet {
    pub folder: TempDir,
    pub settings: Settings,
    pub broker: Arc<dyn Broker>,
    pub store: Arc<dyn ResultStore>,
}

impl Fleet {
    pub async fn new() -> Self {
        let mut settings = Settings::defaults();
        settings.queue.url = service("TEST_AMQP_URL");
        settings.queue.name = format!("tribunal-cli-{}", RequestId::generate());
        settings.store.url = service("TEST_REDIS_URL");
        let broker = queue::connect(&settings.queue).unwrap();
        let store = store::connect(&settings.store).await.unwrap();
        Self { folder: tempdir().unwrap(), settings, broker, store }
    }

    pub fn tribunal(&self, arguments: &[&str]) -> Command {
        let mut command = tribunal(self.folder.path());
        command.env("TRIBUNAL_QUEUE__NAME", &self.settings.queue.name);
        command.args(["--queue-url", &self.settings.queue.url, "--store-url", &self.settings.store.url]);
        command.args(arguments);
        command
    }

    /// Takes the next request off the queue, as a worker does.
    pub async fn take(&self) -> ExecutionRequest {
        let mut consumer = self.broker.consume(&[], 1).await.unwrap();
        let delivery = consumer.next().await.unwrap();
        let request = ExecutionRequest::from_json(&delivery.body).unwrap();
        delivery.ack().await.unwrap();
        request
    }

    /// Begins a request, as a worker does.
    pub async fn begin(&self, request: &ExecutionRequest, lease: &Lease, attempt: u32) {
        let id = request.request_id.as_deref().unwrap().parse().unwrap();
        let digest = Digest::of(&serde_json::to_vec(request).unwrap());
        assert_eq!(self.store.take(&id, &digest, lease, 3).await.unwrap(), Take::Begun { attempt });
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for queue in ["requests", "requests.high", "requests.low", "fallen", "dead", "parked", "unanswered"] {
            let mut command = Command::new("amqp-delete-queue");
            command.arg(format!("--url={}", self.settings.queue.url));
            command.args(["-q", &format!("{}.{queue}", self.settings.queue.name)]);
            // Some tests make no queues.
            let _ = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
        }
    }
}

pub fn two_sum() -> String {
    example("two_sum").to_str().unwrap().to_owned()
}
