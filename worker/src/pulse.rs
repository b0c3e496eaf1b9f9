//! A worker's heartbeat: it tells the store that it lives and what it does, and hears which of its requests have a result
//! already, because they were cancelled or judged elsewhere.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use tribunal_shared::request::RequestId;
use tribunal_shared::store::{HEARTBEAT, ResultStore, WorkerReport};

use crate::health::{Health, Part};
use crate::metrics;
use crate::slots::Slots;
use crate::toolchains::Toolchains;

pub struct Pulse {
    /// What runs, and how it is told that there is no more need to.
    running: Mutex<HashMap<RequestId, CancellationToken>>,
    done: AtomicU64,
    beat: Mutex<Instant>,
}

impl Default for Pulse {
    fn default() -> Self {
        Self { running: Mutex::default(), done: AtomicU64::new(0), beat: Mutex::new(Instant::now()) }
    }
}

/// A request that runs here, until dropped.
pub struct Running<'a> {
    pulse: &'a Pulse,
    id: RequestId,
    settled: CancellationToken,
}

impl Running<'_> {
    /// It has a result: nobody needs ours.
    pub async fn settled(&self) {
        self.settled.cancelled().await;
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.pulse.running().remove(&self.id);
    }
}

impl Pulse {
    pub fn runs(&self, id: &RequestId) -> Running<'_> {
        let settled = CancellationToken::new();
        self.running().insert(id.clone(), settled.clone());
        Running { pulse: self, id: id.clone(), settled }
    }

    pub fn finished(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    /// Since it was last tried to say that we live.
    pub fn age(&self) -> Duration {
        self.beat.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    fn running(&self) -> MutexGuard<'_, HashMap<RequestId, CancellationToken>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For ever. `report` says what stays the same.
    pub async fn beat(
        &self,
        store: Arc<dyn ResultStore>,
        health: &Health,
        slots: &Slots,
        toolchains: &Toolchains,
        mut report: WorkerReport,
    ) {
        let mut ticks = interval(HEARTBEAT);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            *self.beat.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
            let running: Vec<_> = self.running().keys().cloned().collect();
            metrics::load(slots.count(), slots.busy(), running.len());
            report.running = running.len();
            report.missing = toolchains.missing();
            report.done = self.done.load(Ordering::Relaxed);
            let problems = health.problems().into_iter().map(|(part, problem)| format!("{}: {problem}", part.as_str()));
            report.unready = problems.collect::<Vec<_>>().join("; ");
            match store.beat(&report, &running).await {
                Ok(settled) => {
                    health.set(Part::Store, None);
                    let running = self.running();
                    settled.iter().filter_map(|id| running.get(id)).for_each(CancellationToken::cancel);
                }
                Err(error) => health.set(Part::Store, Some(error.to_string())),
            }
        }
    }
}
