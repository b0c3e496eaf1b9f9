//! A queue within one process, for the embedded mode: the same promises as RabbitMQ, for as long as the process lives.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use super::{Broker, Consumer, DELIVERY_LIMIT, Delivery, Depth, Message, QueueError, Settle, Settlement};

#[derive(Clone, Default)]
pub struct MemoryBroker(Arc<Shared>);

#[derive(Default)]
struct Shared {
    queues: Mutex<Queues>,
    arrived: Notify,
    /// Every consumer holds another one: counting them counts the consumers.
    presence: Arc<()>,
}

#[derive(Default)]
struct Queues {
    ready: VecDeque<Stored>,
    dead: Vec<Stored>,
}

#[derive(Clone)]
struct Stored {
    message: Message,
    deliveries: u32,
}

impl Shared {
    fn queues(&self) -> MutexGuard<'_, Queues> {
        // Every change is a single push or pop: a panic elsewhere leaves the queues whole.
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Option<Stored> {
        let mut queues = self.queues();
        let stored = queues.ready.pop_front();
        // Two messages that arrive before anybody waits leave one wake-up behind: pass it on.
        if !queues.ready.is_empty() {
            self.arrived.notify_one();
        }
        stored
    }

    fn give_back(&self, stored: Stored) {
        let mut queues = self.queues();
        if stored.deliveries > DELIVERY_LIMIT {
            queues.dead.push(stored);
        } else {
            queues.ready.push_front(stored);
            self.arrived.notify_one();
        }
    }
}

#[async_trait]
impl Broker for MemoryBroker {
    async fn publish(&self, message: Message) -> Result<(), QueueError> {
        self.0.queues().ready.push_back(Stored { message, deliveries: 0 });
        self.0.arrived.notify_one();
        Ok(())
    }

    async fn consume(&self, prefetch: u16) -> Result<Box<dyn Consumer>, QueueError> {
        let unsettled = Arc::new(Semaphore::new(prefetch.into()));
        let presence = Some(Arc::clone(&self.0.presence));
        Ok(Box::new(MemoryConsumer { shared: Arc::clone(&self.0), unsettled, presence }))
    }

    async fn depth(&self) -> Result<Depth, QueueError> {
        let queues = self.0.queues();
        let consumers = Arc::strong_count(&self.0.presence) - 1;
        Ok(Depth { ready: queues.ready.len() as u64, dead: queues.dead.len() as u64, consumers: consumers as u64 })
    }
}

struct MemoryConsumer {
    shared: Arc<Shared>,
    unsettled: Arc<Semaphore>,
    /// Absent once it has stopped.
    presence: Option<Arc<()>>,
}

#[async_trait]
impl Consumer for MemoryConsumer {
    async fn next(&mut self) -> Result<Delivery, QueueError> {
        let permit = Arc::clone(&self.unsettled).acquire_owned().await.expect("the semaphore is never closed");
        loop {
            if let Some(mut stored) = self.shared.take() {
                stored.deliveries += 1;
                return Ok(Delivery {
                    body: stored.message.body.clone(),
                    message_id: Some(stored.message.id.to_string()),
                    kind: None,
                    attempt: stored.deliveries,
                    settle: Box::new(Unsettled {
                        shared: Arc::clone(&self.shared),
                        stored: Some(stored),
                        _permit: permit,
                    }),
                });
            }
            self.shared.arrived.notified().await;
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
    _permit: OwnedSemaphorePermit,
}

#[async_trait]
impl Settle for Unsettled {
    async fn settle(mut self: Box<Self>, settlement: Settlement) -> Result<(), QueueError> {
        match (settlement, self.stored.take()) {
            (Settlement::GiveBack, Some(stored)) => self.shared.give_back(stored),
            (Settlement::DeadLetter, Some(stored)) => self.shared.queues().dead.push(stored),
            (Settlement::Ack, _) | (_, None) => {}
        }
        Ok(())
    }
}

impl Drop for Unsettled {
    fn drop(&mut self) {
        if let Some(stored) = self.stored.take() {
            self.shared.give_back(stored);
        }
    }
}
