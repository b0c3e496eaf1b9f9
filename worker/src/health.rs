//! Whether a worker can keep its promises just now. One that cannot takes no requests, so that others do.

use tokio::sync::watch;
use tracing::{info, warn};

use crate::metrics;

/// What a worker needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Queue,
    Store,
    Sandbox,
}

impl Part {
    pub const ALL: [Self; 3] = [Self::Queue, Self::Store, Self::Sandbox];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Store => "store",
            Self::Sandbox => "sandbox",
        }
    }
}

/// What is wrong with each part, in the order of [`Part::ALL`].
type Problems = [Option<String>; Part::ALL.len()];

pub struct Health(watch::Sender<Problems>);

impl Default for Health {
    /// Not connected to the queue yet. The store and the sandbox were reached before there was a worker.
    fn default() -> Self {
        Self(watch::Sender::new([Some("not connected yet".into()), None, None]))
    }
}

impl Health {
    /// Said once for each change.
    pub fn set(&self, part: Part, problem: Option<String>) {
        let fine = problem.is_none();
        let changed = self.0.send_if_modified(|problems| {
            let known = &mut problems[part as usize];
            let changed = known.is_none() != fine;
            *known = problem.clone();
            changed
        });
        match (changed, problem) {
            (true, Some(problem)) if part != Part::Queue => {
                warn!(part = part.as_str(), problem, "not ready: no requests are taken");
            }
            (true, None) if part != Part::Queue => info!(part = part.as_str(), "ready again"),
            _ => {}
        }
        metrics::ready(part.as_str(), fine);
    }

    /// Whether requests may be taken. The queue does not count: without it there are none.
    pub fn is_fit(&self) -> bool {
        let problems = self.0.borrow();
        problems[Part::Store as usize].is_none() && problems[Part::Sandbox as usize].is_none()
    }

    pub fn is_fine(&self, part: Part) -> bool {
        self.0.borrow()[part as usize].is_none()
    }

    /// Everything that is wrong; empty if the worker is ready.
    pub fn problems(&self) -> Vec<(Part, String)> {
        let problems = self.0.borrow();
        Part::ALL.into_iter().filter_map(|part| Some((part, problems[part as usize].clone()?))).collect()
    }

    pub fn changes(&self) -> watch::Receiver<Problems> {
        self.0.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_fit_when_store_and_sandbox_are_and_ready_when_the_queue_is_too() {
        let health = Health::default();
        assert!(health.is_fit());
        assert_eq!(health.problems().len(), 1);
        health.set(Part::Queue, None);
        assert_eq!(health.problems(), []);
        let mut changes = health.changes();
        changes.mark_unchanged();
        health.set(Part::Sandbox, Some("no daemon".into()));
        assert!(changes.has_changed().unwrap() && !health.is_fit());
        assert_eq!(health.problems(), [(Part::Sandbox, "no daemon".to_owned())]);
        changes.mark_unchanged();
        health.set(Part::Sandbox, Some("still no daemon".into()));
        assert!(!changes.has_changed().unwrap(), "it is not news that it is still so");
        health.set(Part::Sandbox, None);
        assert!(health.is_fit());
    }
}
