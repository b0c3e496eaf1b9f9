//! What may run at once on a worker, and who is next when all of it is taken.
//!
//! A slot is held for one compile or one test, not for a request, so that an urgent request waits for a test of another
//! one at most. Among those that wait, priorities take turns by their weights: urgent ones come first, and none starves.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use tribunal_shared::request::Priority;

#[derive(Clone)]
pub struct Slots(Arc<Shared>);

struct Shared {
    count: usize,
    line: Mutex<Line>,
}

struct Line {
    free: usize,
    /// In the order of [`Priority::ALL`].
    lanes: [Lane; Priority::ALL.len()],
}

#[derive(Default)]
struct Lane {
    waiting: VecDeque<oneshot::Sender<Slot>>,
    /// How much it is owed. The lane that is owed most is served; over time each gets the share that its weight says.
    credit: i64,
}

/// The right to run one program. Somebody else's when dropped.
pub struct Slot(Option<Arc<Shared>>);

impl Slots {
    pub fn new(count: usize) -> Self {
        let line = Line { free: count, lanes: Default::default() };
        Self(Arc::new(Shared { count, line: Mutex::new(line) }))
    }

    pub fn count(&self) -> usize {
        self.0.count
    }

    pub fn busy(&self) -> usize {
        self.0.count - self.0.line().free
    }

    pub async fn take(&self, priority: Priority) -> Slot {
        let turn = {
            let mut line = self.0.line();
            if line.free > 0 {
                line.free -= 1;
                return Slot(Some(Arc::clone(&self.0)));
            }
            let (sender, turn) = oneshot::channel();
            line.lanes[priority as usize].waiting.push_back(sender);
            turn
        };
        turn.await.expect("a place in the line is given up only when nobody waits there any more")
    }
}

impl Shared {
    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Line {
    /// The next in line, by weight.
    fn next(&mut self) -> Option<oneshot::Sender<Slot>> {
        let mut total = 0;
        for (lane, priority) in self.lanes.iter_mut().zip(Priority::ALL) {
            lane.waiting.retain(|waiting| !waiting.is_closed());
            if lane.waiting.is_empty() {
                // What it is owed does not pile up while it wants nothing.
                lane.credit = 0;
            } else {
                lane.credit += i64::from(priority.weight());
                total += i64::from(priority.weight());
            }
        }
        let waiting = self.lanes.iter_mut().filter(|lane| !lane.waiting.is_empty());
        // Of equals the first, which is the more urgent.
        let next = waiting.reduce(|best, lane| if lane.credit > best.credit { lane } else { best })?;
        next.credit -= total;
        next.waiting.pop_front()
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let Some(shared) = self.0.take() else { return };
        loop {
            let Some(next) = ({
                let mut line = shared.line();
                let next = line.next();
                line.free += usize::from(next.is_none());
                next
            }) else {
                return;
            };
            match next.send(Slot(Some(Arc::clone(&shared)))) {
                Ok(()) => return,
                // Gone in this very moment.
                Err(mut unwanted) => drop(unwanted.0.take()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn no_more_are_taken_than_there_are_and_a_free_one_is_taken_at_once() {
        let slots = Slots::new(2);
        let (one, _two) = (slots.take(Priority::Low).await, slots.take(Priority::High).await);
        assert!(slots.take(Priority::High).now_or_never().is_none());
        assert_eq!(slots.busy(), 2);
        drop(one);
        let _three = slots.take(Priority::Normal).now_or_never().expect("one is free");
        assert_eq!(slots.busy(), 2);
    }

    /// Everybody waits at first; then one slot goes from one to the next.
    async fn order(waiting: &[(Priority, usize)]) -> Vec<Priority> {
        let slots = Slots::new(1);
        let held = slots.take(Priority::Normal).await;
        let served = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = Vec::new();
        for (priority, count) in waiting {
            for _ in 0..*count {
                let (slots, served, priority) = (slots.clone(), Arc::clone(&served), *priority);
                tasks.push(tokio::spawn(async move {
                    let _slot = slots.take(priority).await;
                    served.lock().unwrap().push(priority);
                }));
            }
        }
        while slots.0.line().lanes.iter().map(|lane| lane.waiting.len()).sum::<usize>() < tasks.len() {
            tokio::task::yield_now().await;
        }
        drop(held);
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(slots.busy(), 0);
        Arc::into_inner(served).unwrap().into_inner().unwrap()
    }

    #[tokio::test]
    async fn the_urgent_overtake_and_nobody_starves() {
        let order = order(&[(Priority::Low, 100), (Priority::Normal, 100), (Priority::High, 100)]).await;
        let count = |among: &[Priority], wanted| among.iter().filter(|priority| **priority == wanted).count();
        assert_eq!(order[0], Priority::High);
        let first = &order[..105];
        let counts = Priority::ALL.map(|priority| count(first, priority));
        assert_eq!(counts, [80, 20, 5], "by their weights");
    }

    #[tokio::test]
    async fn within_a_priority_the_first_comes_first_and_alone_it_gets_everything() {
        assert_eq!(order(&[(Priority::Low, 50)]).await, [Priority::Low; 50]);
    }

    #[tokio::test]
    async fn who_stops_waiting_is_passed_over_and_loses_no_slot() {
        let slots = Slots::new(1);
        let held = slots.take(Priority::Normal).await;
        let mut leaving = Box::pin(slots.take(Priority::High));
        assert!(leaving.as_mut().now_or_never().is_none());
        drop(leaving);
        // This one is served and then leaves without having looked.
        let mut served = Box::pin(slots.take(Priority::High));
        assert!(served.as_mut().now_or_never().is_none());
        drop(held);
        drop(served);
        assert_eq!(slots.busy(), 0);
    }
}
