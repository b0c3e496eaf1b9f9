//! Which languages cannot be judged here just now. What one worker lacks, another may have.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tribunal_shared::store::WorkerStatus;

#[derive(Default)]
pub struct Toolchains(Mutex<State>);

#[derive(Default)]
struct State {
    missing: BTreeSet<String>,
    /// All that were looked for are.
    all: bool,
}

impl Toolchains {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn found(&self, language: &str) {
        let mut state = self.state();
        if state.missing.remove(language) {
            state.all = false;
        }
    }

    pub fn missed(&self, language: &str) {
        self.state().missing.insert(language.into());
    }

    /// These are all that this worker might judge, and each was found or missed.
    pub fn looked_for<'a>(&self, mut languages: impl Iterator<Item = &'a str>) {
        let mut state = self.state();
        state.all = languages.all(|language| state.missing.contains(language));
    }

    pub fn missing(&self) -> Vec<String> {
        self.state().missing.iter().cloned().collect()
    }

    /// Nothing can be judged here.
    pub fn all_are_missing(&self) -> bool {
        self.state().all
    }
}

/// Whether another worker of the same queue lives that has what `own` lacks.
pub fn is_elsewhere(language: &str, own: &str, queue: &str, workers: &[WorkerStatus]) -> bool {
    workers.iter().any(|WorkerStatus { report, alive, .. }| {
        let takes = report.languages.is_empty() || report.languages.iter().any(|bound| bound == language);
        let lacks = report.missing.iter().any(|missing| missing == language);
        *alive && report.name != own && report.queue == queue && takes && !lacks
    })
}

#[cfg(test)]
mod tests {
    use tribunal_shared::store::WorkerReport;

    use super::*;

    #[test]
    fn a_worker_that_misses_everything_is_told_from_one_that_misses_some() {
        let toolchains = Toolchains::default();
        assert!(!toolchains.all_are_missing(), "nobody has looked");
        toolchains.missed("go");
        toolchains.looked_for(["go", "c"].into_iter());
        assert!(!toolchains.all_are_missing());
        toolchains.missed("c");
        toolchains.looked_for(["go", "c"].into_iter());
        assert!(toolchains.all_are_missing());
        toolchains.found("go");
        assert!(!toolchains.all_are_missing());
        assert_eq!(toolchains.missing(), ["c"]);
    }

    #[test]
    fn only_a_living_worker_of_the_same_queue_that_takes_and_has_the_language_counts() {
        let worker = |change: fn(&mut WorkerStatus)| {
            let report = WorkerReport {
                name: "other".into(),
                host: "h".into(),
                version: "1".into(),
                queue: "q".into(),
                slots: 1,
                running: 0,
                done: 0,
                languages: Vec::new(),
                missing: Vec::new(),
                unready: String::new(),
            };
            let mut worker = WorkerStatus { report, last_heartbeat_ms: 1, alive: true };
            change(&mut worker);
            is_elsewhere("go", "own", "q", &[worker])
        };
        assert!(worker(|_| ()));
        assert!(worker(|worker| worker.report.languages = vec!["go".into()]));
        assert!(worker(|worker| worker.report.missing = vec!["c".into()]));
        assert!(!worker(|worker| worker.alive = false));
        assert!(!worker(|worker| worker.report.name = "own".into()));
        assert!(!worker(|worker| worker.report.queue = "another".into()));
        assert!(!worker(|worker| worker.report.languages = vec!["c".into()]));
        assert!(!worker(|worker| worker.report.missing = vec!["go".into()]));
    }
}
