//! The way to the fleet: a client on the configured queue and store.

use std::sync::Arc;

use tokio::time::timeout;
use tribunal_shared::address;
use tribunal_shared::config::{Settings, StoreSettings};
use tribunal_shared::queue::memory::MemoryBroker;
use tribunal_shared::queue::{self, Broker};
use tribunal_shared::store::memory::MemoryStore;
use tribunal_shared::store::{self, ResultStore, StoreError};

use super::ANSWER_WITHIN;
use super::exit::Failure;
use crate::client::Client;

/// To submit and to ask.
pub async fn client(settings: &Settings) -> Result<Client, Failure> {
    refuse_memory("queue.url", "--queue-url", &settings.queue.url)?;
    refuse_memory("store.url", "--store-url", &settings.store.url)?;
    let broker = queue::connect(&settings.queue)?;
    Ok(Client::new(broker, store(&settings.store).await?, settings))
}

/// Only to ask, for which the queue need not be there.
pub async fn reader(settings: &Settings) -> Result<Client, Failure> {
    refuse_memory("store.url", "--store-url", &settings.store.url)?;
    let nothing: Arc<dyn Broker> = Arc::new(MemoryBroker::new(&settings.queue));
    Ok(Client::new(nothing, store(&settings.store).await?, settings))
}

/// Only to look at what is in the queue, for which the store need not be there.
pub fn queue_only(settings: &Settings) -> Result<Client, Failure> {
    refuse_memory("queue.url", "--queue-url", &settings.queue.url)?;
    let nothing: Arc<dyn ResultStore> = Arc::new(MemoryStore::new(&settings.store));
    Ok(Client::new(queue::connect(&settings.queue)?, nothing, settings))
}

pub async fn store(settings: &StoreSettings) -> Result<Arc<dyn ResultStore>, StoreError> {
    timeout(ANSWER_WITHIN, store::connect(settings)).await.unwrap_or_else(|_| {
        Err(StoreError::Unreachable {
            what: "the store",
            address: address::without_credentials(&settings.url),
            reason: format!("no answer within {} s", ANSWER_WITHIN.as_secs_f32()),
        })
    })
}

fn refuse_memory(key: &str, flag: &str, url: &str) -> Result<(), Failure> {
    if address::scheme(url) != "memory" {
        return Ok(());
    }
    Err(Failure::Usage(format!(
        "{key} is memory://, which lives within one process only, so no worker would ever see this command's requests \
         and no command a worker's results. Use `tribunal judge`, or set {key} ({flag}) to where the fleet's is"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn memory_is_refused_with_a_remedy() {
        let mut settings = Settings::defaults();
        settings.queue.url = "memory://".into();
        let Err(Failure::Usage(message)) = client(&settings).await else { panic!("accepted") };
        assert!(message.contains("queue.url") && message.contains("tribunal judge"), "{message}");

        settings.store.url = "memory://".into();
        let Err(Failure::Usage(message)) = reader(&settings).await else { panic!("accepted") };
        assert!(message.contains("store.url") && message.contains("--store-url"), "{message}");
    }
}
