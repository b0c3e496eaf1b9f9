//! A queue within one process, for the embedded mode: the same promises as RabbitMQ, for as long as the process lives.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use super::{
    Broker, Consumer, DELIVERY_LIMIT, DeadLetter, Delivery, Depth, Fate, Message, Names, QueueError, Settle,
    Settlement, is_known, now_ms,
};
use crate::config::QueueSettings;

#[derive(Clone)]
pub struct MemoryBroker(Arc<Shared>);

struct Shared {
    names: Names,
    queues: Mutex<Queues>,
    /// Something was put into a queue, or there is room for another delivery.
    changed: Notify,
    /// Every consumer of requests holds another one: counting them counts the consumers.
    presence: Arc<()>,
}

#[derive(Default)]
struct Queues {
    waiting: HashMap<String, VecDeque<Stored>>,
    dead: Vec<DeadLetter>,
}

#[derive(Clone)]
struct Stored {
    queue: String,
    id: Option<String>,
    kind: Option<String>,
    body: Vec<u8>,
    traceparent: Option<String>,
    published_ms: u64,
    deliveries: u32,
}

impl MemoryBroker {
    pub fn new(settings: &QueueSettings) -> Self {
        Self(Arc::new(Shared {
            names: Names::new(settings),
            queues: Mutex::default(),
            changed: Notify::new(),
            presence: Arc::default(),
        }))
    }
}

impl Shared {
    fn queues(&self) -> MutexGuard<'_, Queues> {
        // Every change is a single push or pop: a panic elsewhere leaves the queues whole.
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push_back(&self, queue: &str, stored: Stored) {
        self.queues().waiting.entry(queue.into()).or_default().push_back(stored);
        self.changed.notify_waiters();
    }

    fn give_back(&self, stored: Stored) {
        if stored.deliveries > DELIVERY_LIMIT {
            return self.push_back(&self.names.fallen(), Stored { deliveries: 0, ..stored });
        }
        self.queues().waiting.entry(stored.queue.clone()).or_default().push_front(stored);
        self.changed.notify_waiters();
    }
}

#[async_trait]
impl Broker for MemoryBroker {
    async fn publish_all(&self, messages: Vec<Message>) -> Vec<Result<(), QueueError>> {
        let publish = |message: Message| {
            let queue = self.0.names.requests(Some(&message.language), message.priority);
            let stored = Stored {
                queue: queue.clone(),
                id: Some(message.id.into()),
                kind: None,
                body: message.body,
                traceparent: message.traceparent,
                published_ms: now_ms(),
                deliveries: 0,
            };
            self.0.push_back(&queue, stored);
            Ok(())
        };
        messages.into_iter().map(publish).collect()
    }

    async fn consume(&self, languages: &[String], prefetch: u16) -> Result<Box<dyn Consumer>, QueueError> {
        let names = &self.0.names;
        let with_room = |queue: String| {
            let room = Semaphore::new(names.room(&queue, prefetch).into());
            (queue, Arc::new(room))
        };
        let queues = names.consumed_by(languages).into_iter().map(with_room).collect();
        let presence = Some(Arc::clone(&self.0.presence));
        Ok(Box::new(MemoryConsumer { shared: Arc::clone(&self.0), queues, presence }))
    }

    async fn depth(&self) -> Result<Depth, QueueError> {
        let (names, queues) = (&self.0.names, self.0.queues());
        let waiting = |name: &str| queues.waiting.get(name).map_or(0, |queue| queue.len() as u64);
        let requests: Vec<_> = names.requests_of(&[]).into_iter().map(|name| (waiting(&name), name)).collect();
        Ok(Depth {
            ready: requests.iter().map(|(count, _)| count).sum(),
            dead: queues.dead.len() as u64 + waiting(&names.fallen()),
            parked: waiting(&names.parked()),
            unanswered: 0,
            consumers: Arc::strong_count(&self.0.presence) as u64 - 1,
            queues: requests.into_iter().map(|(count, name)| (name, count)).collect(),
        })
    }

    async fn bury(&self, letter: &DeadLetter) -> Result<(), QueueError> {
        self.0.queues().dead.push(letter.clone());
        Ok(())
    }

    async fn dead_letters(&self, most: usize) -> Result<Vec<DeadLetter>, QueueError> {
        Ok(self.0.queues().dead.iter().take(most).cloned().collect())
    }

    async fn exhume(&self, key: &str, fate: Fate) -> Result<usize, QueueError> {
        let copies: Vec<_> = {
            let dead = &mut self.0.queues().dead;
            let Some(oldest) = dead.iter().find(|letter| letter.key() == key).map(|letter| letter.body.clone()) else {
                return Ok(0);
            };
            dead.extract_if(.., |letter| letter.key() == key && letter.body == oldest).collect()
        };
        let count = copies.len();
        if let Some(letter) = copies.into_iter().next().filter(|_| fate == Fate::Requeue) {
            let stored = Stored {
                queue: letter.queue.clone(),
                id: letter.id,
                kind: letter.kind,
                body: letter.body,
                traceparent: letter.traceparent,
                published_ms: now_ms(),
                deliveries: 0,
            };
            self.0.push_back(&letter.queue, stored);
        }
        Ok(count)
    }

    async fn park(&self, delivery: &Delivery) -> Result<(), QueueError> {
        let stored = Stored {
            queue: delivery.queue.clone(),
            id: delivery.message_id.clone(),
            kind: delivery.kind.clone(),
            body: delivery.body.clone(),
            traceparent: delivery.traceparent.clone(),
            published_ms: delivery.published_ms.unwrap_or_else(now_ms),
            deliveries: 0,
        };
        self.0.push_back(&self.0.names.parked(), stored);
        Ok(())
    }

    async fn unpark(&self) -> Result<usize, QueueError> {
        let parked = self.0.queues().waiting.remove(&self.0.names.parked()).unwrap_or_default();
        let (back, stay): (Vec<_>, Vec<_>) = parked.into_iter().partition(|stored| is_known(stored.kind.as_deref()));
        stay.into_iter().for_each(|stored| self.0.push_back(&self.0.names.parked(), stored));
        let count = back.len();
        back.into_iter().for_each(|stored| self.0.push_back(&stored.queue.clone(), stored));
        Ok(count)
    }
}

struct MemoryConsumer {
    shared: Arc<Shared>,
    /// Each with room for as many deliveries as may be unsettled.
    queues: Vec<(String, Arc<Semaphore>)>,
    /// Absent once it has stopped.
    presence: Option<Arc<()>>,
}

impl MemoryConsumer {
    fn take(&self) -> Option<Delivery> {
        let mut queues = self.shared.queues();
        self.queues.iter().find_map(|(name, room)| {
            let waiting = queues.waiting.get_mut(name).filter(|queue| !queue.is_empty())?;
            let permit = Arc::clone(room).try_acquire_owned().ok()?;
            let mut stored = waiting.pop_front()?;
            stored.deliveries += 1;
            Some(Delivery {
                body: stored.body.clone(),
                message_id: stored.id.clone(),
                kind: stored.kind.clone(),
                queue: stored.queue.clone(),
                attempt: stored.deliveries,
                published_ms: Some(stored.published_ms),
                traceparent: stored.traceparent.clone(),
                fallen: *name == self.shared.names.fallen(),
                settle: Box::new(Unsettled {
                    shared: Arc::clone(&self.shared),
                    stored: Some(stored),
                    permit: Some(permit),
                }),
            })
        })
    }
}

#[async_trait]
impl Consumer for MemoryConsumer {
    async fn next(&mut self) -> Result<Delivery, QueueError> {
        loop {
            let changed = self.shared.changed.notified();
            let mut changed = std::pin::pin!(changed);
            // From here on no change is missed.
            changed.as_mut().enable();
            if let Some(delivery) = self.take() {
                return Ok(delivery);
            }
            changed.await;
        }
    }

    /// Deliveries are taken one by one, so there are none at hand that were not asked for.
    async fn stop(&mut self) {
        self.presence = None;
    }
}

/// Given back when dropped, as RabbitMQ does when a consumer's connection ends.
struct Unsettled {
    shared: Arc<Shared>,
    stored: Option<Stored>,
    permit: Option<OwnedSemaphorePermit>,
}

#[async_trait]
impl Settle for Unsettled {
    async fn settle(mut self: Box<Self>, settlement: Settlement) -> Result<(), QueueError> {
        match settlement {
            Settlement::Ack => self.stored = None,
            Settlement::GiveBack => {}
        }
        Ok(())
    }
}

impl Drop for Unsettled {
    fn drop(&mut self) {
        if let Some(stored) = self.stored.take() {
            self.shared.give_back(stored);
        }
        drop(self.permit.take());
        self.shared.changed.notify_waiters();
    }
}
