//! How far the work is. Troubles come as it proceeds, not by the clock: so they are spread over all of it, whatever the
//! machine's speed, and what they hold up also holds up the next of them.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub struct Pace {
    target: usize,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    done: usize,
    since: Instant,
    over: bool,
}

impl Pace {
    pub fn new(target: usize) -> Self {
        let state = Mutex::new(State { done: 0, since: Instant::now(), over: false });
        Self { target, state, changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn advance(&self, done: usize) {
        let mut state = self.state();
        if done > state.done {
            (state.done, state.since) = (done, Instant::now());
            self.changed.notify_all();
        }
    }

    /// How long nothing has got done.
    pub fn standstill(&self) -> Duration {
        self.state().since.elapsed()
    }

    /// The part that is done: 1 or more when all of it is.
    pub fn progress(&self) -> f64 {
        self.state().done as f64 / self.target as f64
    }

    /// No more troubles.
    pub fn end(&self) {
        self.state().over = true;
        self.changed.notify_all();
    }

    pub fn is_over(&self) -> bool {
        self.state().over
    }

    /// Waits until so much is done; `false` if it is over before.
    pub fn reach(&self, progress: f64) -> bool {
        let enough = self.target as f64 * progress;
        let waiting = |state: &mut State| !state.over && (state.done as f64) < enough;
        !self.changed.wait_while(self.state(), waiting).unwrap_or_else(PoisonError::into_inner).over
    }

    /// How long a trouble lasts; not longer when it is over.
    pub fn pause(&self, length: Duration) {
        let _ = self.changed.wait_timeout_while(self.state(), length, |state| !state.over);
    }
}
