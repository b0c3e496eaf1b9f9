//! The worker's loop: takes deliveries while it is fit to, and stops in good order.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tracing::{error, info, warn};
use tribunal_shared::config::Settings;
use tribunal_shared::queue::{self, Broker, Consumer, Delivery, QueueError};
use tribunal_shared::retry::Delays;
use tribunal_shared::store::{ResultStore, WorkerReport};

use crate::health::{Health, Part};
use crate::pulse::Pulse;
use crate::run_one::Worker;
use crate::sandbox::Sandbox;
use crate::toolchains::Toolchains;

/// How often the sandbox is looked at. It is also looked at after every failure of it.
const SANDBOX_CHECKED_EVERY: Duration = Duration::from_secs(2);
/// How often somebody looks for what the fleet has left lying about.
const TIDIED_EVERY: Duration = Duration::from_secs(60);
/// After the grace period, to say of each request that it goes back.
const GIVEN_BACK_WITHIN: Duration = Duration::from_secs(2);

/// What a worker is made of.
pub struct Parts {
    pub broker: Arc<dyn Broker>,
    pub store: Arc<dyn ResultStore>,
    pub sandbox: Arc<dyn Sandbox>,
    pub settings: Settings,
    pub host: String,
    /// As others see this worker; different for every process.
    pub name: String,
    /// Seen by those who watch over it.
    pub health: Arc<Health>,
    pub pulse: Arc<Pulse>,
    pub toolchains: Arc<Toolchains>,
}

impl Parts {
    pub fn new(
        broker: Arc<dyn Broker>,
        store: Arc<dyn ResultStore>,
        sandbox: Arc<dyn Sandbox>,
        settings: Settings,
        host: &str,
    ) -> Self {
        let unique = &uuid::Uuid::new_v4().simple().to_string()[..6];
        let name = format!("{host}-{}-{unique}", std::process::id());
        let (health, pulse, toolchains) = (Arc::default(), Arc::default(), Arc::default());
        Self { broker, store, sandbox, settings, host: host.into(), name, health, pulse, toolchains }
    }
}

/// Takes and judges requests until `shutdown`, then finishes what runs within the grace period and gives back the rest.
pub async fn run(parts: Parts, shutdown: impl Future<Output = ()>) {
    let grace = Duration::from_secs(parts.settings.worker.grace_s);
    let worker = Arc::new(Worker::new(parts));
    let Settings { queue, worker: bound, .. } = &worker.parts.settings;
    let places = queue::room(queue, &bound.languages, prefetch(&worker));
    info!(worker = worker.parts.name, slots = worker.slots.count(), "started");
    let mut beside = JoinSet::new();
    beside.spawn(beat(Arc::clone(&worker)));
    beside.spawn(look_after_sandbox(Arc::clone(&worker)));
    beside.spawn(tidy_up(Arc::clone(&worker)));

    let mut shutdown = std::pin::pin!(shutdown);
    let mut health = worker.parts.health.changes();
    let mut running = JoinSet::new();
    let mut source = Source { worker: Arc::clone(&worker), consumer: None, careful: false, sole: None };
    loop {
        let fit = worker.parts.health.is_fit();
        if !worker.parts.health.is_fine(Part::Sandbox) {
            // What waits here for nothing, others can run.
            source.leave();
        }
        tokio::select! {
            () = &mut shutdown => break,
            Ok(()) = health.changed() => {}
            // Not more than there is room for, also when a new connection brings again what still runs from the old one.
            delivery = source.next(), if fit && running.len() < places => {
                let task = running.spawn(Arc::clone(&worker).run_one(delivery));
                source.took(task.id());
            }
            Some(ended) = running.join_next_with_id() => {
                source.ended(match ended {
                    Ok((task, ())) => task,
                    Err(panic) => {
                        // A bug of ours. The delivery was dropped, and so given back.
                        error!(%panic, "a request brought its task down");
                        panic.id()
                    }
                });
            }
        }
    }

    info!(running = running.len(), "stopping");
    worker.parts.health.set(Part::Queue, Some("left, because the worker is stopping".into()));
    worker.draining.cancel();
    source.stop().await;
    let mut all_ended = async |patience| {
        tokio::time::timeout(patience, async { while running.join_next().await.is_some() {} }).await.is_ok()
    };
    if !all_ended(grace).await {
        warn!("the grace period is over: what still runs goes back to the queue");
        worker.halting.cancel();
        all_ended(GIVEN_BACK_WITHIN).await;
    }
    running.shutdown().await;
    beside.shutdown().await;
    worker.parts.sandbox.settle().await;
    // If it fails, the others find out a moment later.
    let _ = worker.parts.store.leave(&worker.parts.name).await;
    info!("stopped");
}

async fn beat(worker: Arc<Worker>) {
    let Parts { store, settings, host, name, health, pulse, toolchains, .. } = &worker.parts;
    let report = WorkerReport {
        name: name.clone(),
        host: host.clone(),
        version: env!("CARGO_PKG_VERSION").into(),
        queue: settings.queue.name.clone(),
        slots: worker.slots.count(),
        running: 0,
        done: 0,
        languages: settings.worker.languages.clone(),
        missing: Vec::new(),
        unready: String::new(),
    };
    pulse.beat(Arc::clone(store), health, &worker.slots, toolchains, report).await;
}

async fn look_after_sandbox(worker: Arc<Worker>) {
    loop {
        tokio::time::sleep(SANDBOX_CHECKED_EVERY).await;
        worker.check_sandbox().await;
    }
}

/// Messages go back that an older worker did not know, and we do; and workers are forgotten that died long ago.
async fn tidy_up(worker: Arc<Worker>) {
    loop {
        // Whoever asks for them has the store forget those.
        if let Err(error) = worker.parts.store.workers().await {
            warn!(%error, "dead workers could not be looked for");
        }
        match worker.parts.broker.unpark().await {
            Ok(0) => {}
            Ok(count) => info!(count, "messages that were parked go back to the queue"),
            Err(error) => warn!(%error, "parked messages could not be looked for"),
        }
        tokio::time::sleep(TIDIED_EVERY).await;
    }
}

/// Deliveries, across lost connections.
struct Source {
    worker: Arc<Worker>,
    consumer: Option<Box<dyn Consumer>>,
    /// A lost connection may have broken on a message that our client cannot read. The next one takes messages singly, so
    /// that only that one message is delivered again and again, until the broker gives it up, and its neighbours are not.
    careful: bool,
    /// The task of the message that was taken singly.
    sole: Option<tokio::task::Id>,
}

impl Source {
    async fn next(&mut self) -> Delivery {
        let mut delays = Delays::new(Duration::from_millis(200), Duration::from_secs(5));
        loop {
            let next = match &mut self.consumer {
                Some(consumer) => consumer.next().await,
                None => match connect(&self.worker, self.careful).await {
                    Ok(consumer) => {
                        info!("connected to the queue; taking requests");
                        self.worker.parts.health.set(Part::Queue, None);
                        self.consumer = Some(consumer);
                        delays.reset();
                        continue;
                    }
                    Err(error) => Err(error),
                },
            };
            match next {
                Ok(delivery) => return delivery,
                Err(error) => {
                    warn!(%error, "no requests can be taken; connecting again");
                    self.worker.parts.health.set(Part::Queue, Some(error.to_string()));
                    (self.consumer, self.sole) = (None, None);
                    if matches!(error, QueueError::Lost { .. }) {
                        // The broker was there a moment ago.
                        self.careful = true;
                        delays.reset();
                    }
                    tokio::time::sleep(delays.next_delay()).await;
                }
            }
        }
    }

    fn took(&mut self, task: tokio::task::Id) {
        self.sole = self.careful.then_some(task);
    }

    /// A message was read and settled: there is no more need for care. Another one of another queue may be unsettled on this
    /// connection; it is delivered again, and waits for the result that we are at.
    fn ended(&mut self, task: tokio::task::Id) {
        if self.sole == Some(task) {
            (self.careful, self.sole, self.consumer) = (false, None, None);
        }
    }

    /// Gives back what was delivered and not yet taken.
    fn leave(&mut self) {
        if self.consumer.take().is_some() {
            info!("left the queue");
            self.worker.parts.health.set(Part::Queue, Some("left until the sandbox is in order".into()));
        }
    }

    async fn stop(&mut self) {
        if let Some(consumer) = &mut self.consumer {
            consumer.stop().await;
        }
    }
}

/// Of each priority as many requests as can have a slot: more would only wait here instead of elsewhere.
async fn connect(worker: &Worker, careful: bool) -> Result<Box<dyn Consumer>, QueueError> {
    let Parts { broker, settings, .. } = &worker.parts;
    let prefetch = if careful { 1 } else { prefetch(worker) };
    broker.consume(&settings.worker.languages, prefetch).await
}

fn prefetch(worker: &Worker) -> u16 {
    u16::try_from(worker.slots.count()).unwrap_or(u16::MAX)
}
