//! One queue with its producers: what goes in, and what is seen to come out.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use lapin::BasicProperties;
use redis::AsyncCommands;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tribunal_producer::client::{Client, SubmitError};
use tribunal_shared::config::Settings;
use tribunal_shared::queue::EXECUTION_REQUEST;
use tribunal_shared::{queue, store};

use crate::cases::{Verdict, draw};
use crate::ledger::Ledger;
use crate::pace::Pace;
use crate::wire::{Raw, Wire, poison};

const LOOKED_EVERY: Duration = Duration::from_millis(100);
const PRODUCERS: usize = 4;
/// With no more troubles, everything works again long before.
const HOPELESS_AFTER: Duration = Duration::from_secs(30);
/// Of a hundred messages.
const POISON: u32 = 2;
const COPIES: u32 = 4;
/// A copy may come long after the result.
const REMEMBERED: usize = 50;

pub struct Court {
    pub settings_file: PathBuf,
    pub settings: Settings,
    pub ledger: Ledger,
    pub pace: Arc<Pace>,
    client: Client,
    /// Requests that may be under way at a time: enough for all workers to be busy, few enough to see the end.
    admission: Semaphore,
}

impl Court {
    pub async fn open(folder: &Path, name: &str, settings: &str, target: usize, most_open: usize) -> Arc<Self> {
        let settings_file = folder.join(format!("{name}.toml"));
        std::fs::write(&settings_file, settings).expect("a file in a folder of ours");
        let settings = Settings::load(Some(&settings_file)).expect("the settings are valid");
        let broker = queue::connect(&settings.queue).expect("a queue");
        let store = store::connect(&settings.store).await.expect("a store");
        Arc::new(Self {
            client: Client::new(broker, store, &settings),
            settings_file,
            settings,
            ledger: Ledger::default(),
            pace: Arc::new(Pace::new(target)),
            admission: Semaphore::new(most_open),
        })
    }

    /// Ends when no more requests are wanted and all that were begun are confirmed.
    pub async fn produce(self: Arc<Self>, mut rng: Rng) {
        let mut producers = JoinSet::new();
        for _ in 0..PRODUCERS {
            producers.spawn(Arc::clone(&self).produce_alone(rng.fork()));
        }
        while let Some(ended) = producers.join_next().await {
            ended.expect("a producer does not panic");
        }
    }

    pub fn produce_no_more(&self) {
        self.admission.close();
    }

    async fn produce_alone(self: Arc<Self>, mut rng: Rng) {
        // Of a cluster, one node; while that is away, there is nothing but what our client sends.
        let url = self.settings.queue.url.split(',').next().expect("the first of any");
        let mut wire = Wire::new(url, &self.settings.queue.name);
        let mut sent: VecDeque<(String, Raw)> = VecDeque::new();
        while let Ok(permit) = self.admission.acquire().await {
            // Given back when the result is seen.
            permit.forget();
            let lot = rng.u32(0..100);
            if lot < POISON {
                self.poison(&mut wire, &mut rng).await;
                continue;
            }
            if lot < POISON + COPIES && !sent.is_empty() {
                let (id, message) = &sent[rng.usize(0..sent.len())];
                if wire.publish(message).await {
                    self.ledger.copied(id);
                }
            }
            let Some(confirmed) = self.submit(&mut rng).await else { return };
            sent.push_back(confirmed);
            if sent.len() > REMEMBERED {
                sent.pop_front();
            }
        }
    }

    /// Repeats it, under the same id, until it is confirmed; `None` if that is hopeless.
    async fn submit(&self, rng: &mut Rng) -> Option<(String, Raw)> {
        let case = draw(rng);
        let id = case.request.request_id.clone().expect("requests of ours have ids");
        self.ledger.announce(&id, case.name, case.verdict);
        loop {
            match self.client.submit(case.request.clone()).await {
                Ok(_) => break,
                Err(SubmitError::Queue(_) | SubmitError::Store(_)) => {
                    self.ledger.refused(&id);
                    if self.pace.is_over() && self.pace.standstill() > HOPELESS_AFTER {
                        return None;
                    }
                    tokio::time::sleep(Duration::from_millis(rng.u64(50..500))).await;
                }
                Err(error) => panic!("{id} is a request like any other: {error}"),
            }
        }
        self.ledger.confirmed(&id);
        let body = serde_json::to_vec(&case.request).expect("a request is JSON");
        let properties =
            BasicProperties::default().with_message_id(id.as_str().into()).with_type(EXECUTION_REQUEST.into());
        Some((id, Raw { body, properties }))
    }

    async fn poison(&self, wire: &mut Wire, rng: &mut Rng) {
        let poison = poison(rng);
        if let Some(id) = &poison.id {
            self.ledger.announce(id, poison.name, Verdict::refused());
        }
        let confirmed = wire.publish(&poison.message).await;
        if confirmed {
            self.ledger.poisoned();
        }
        match poison.id {
            Some(id) if confirmed => self.ledger.confirmed(&id),
            _ => self.admission.add_permits(1),
        }
    }

    /// Looks for results, for ever.
    pub async fn watch(self: Arc<Self>) {
        let client = redis::Client::open(self.settings.store.url.as_str()).expect("the address of a Redis");
        loop {
            // It is away at times; that is the point.
            if let Ok(mut connection) = client.get_multiplexed_async_connection().await {
                while self.look(&mut connection).await.is_ok() {
                    tokio::time::sleep(LOOKED_EVERY).await;
                }
            }
            tokio::time::sleep(LOOKED_EVERY).await;
        }
    }

    async fn look(&self, connection: &mut redis::aio::MultiplexedConnection) -> redis::RedisResult<()> {
        let open = self.ledger.open();
        if open.is_empty() {
            return Ok(());
        }
        let keys: Vec<_> = open.iter().map(|id| format!("tribunal:result:{id}")).collect();
        let results: Vec<Option<Vec<u8>>> = connection.mget(keys).await?;
        for (id, result) in open.iter().zip(results) {
            if let Some(result) = result {
                self.ledger.seen(id, result);
                self.admission.add_permits(1);
            }
        }
        self.pace.advance(self.ledger.totals().done);
        Ok(())
    }
}
