//! The steps of a request's life at which a worker can be made to die, and the plan of these deaths.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use fastrand::Rng;

/// In the order in which a request passes them.
pub const POINTS: [&str; 9] = [
    "received",
    "claimed",
    "workspace",
    "compiled",
    "test_started",
    "test_ended",
    "before_store",
    "after_store",
    "before_ack",
];
pub const VARIABLE: &str = "TEST_FAILPOINT";
/// A worker dies at one of its first passes.
const PASSES: std::ops::RangeInclusive<u32> = 1..=8;

/// A worker is born with it, and dies of it.
#[derive(Debug, Clone, Copy)]
pub struct Doom {
    pub point: &'static str,
    pub pass: u32,
}

impl Doom {
    /// As the worker reads it.
    pub fn setting(self) -> String {
        format!("{}:{}", self.point, self.pass)
    }

    /// What the worker says before it dies.
    pub fn last_words(self) -> String {
        format!("failpoint {}", self.point)
    }
}

/// Deaths to come, and those that came.
pub struct Dooms {
    planned: usize,
    state: Mutex<State>,
}

struct State {
    ahead: Vec<Doom>,
    fulfilled: BTreeMap<&'static str, usize>,
}

impl Dooms {
    pub fn plan(at_each: usize, rng: &mut Rng) -> Self {
        let mut ahead: Vec<_> = POINTS.iter().flat_map(|point| vec![*point; at_each]).collect();
        rng.shuffle(&mut ahead);
        let ahead: Vec<_> = ahead.into_iter().map(|point| Doom { point, pass: rng.u32(PASSES) }).collect();
        Self { planned: ahead.len(), state: Mutex::new(State { ahead, fulfilled: BTreeMap::new() }) }
    }

    fn with<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The next one, if it is due by now.
    pub fn take(&self, progress: f64) -> Option<Doom> {
        self.with(|state| {
            let begun = self.planned - state.ahead.len();
            // A little ahead of the work, which otherwise would have to wait for the last of them.
            let due = progress * 1.1 * self.planned as f64 + 4.0;
            if (begun as f64) < due { state.ahead.pop() } else { None }
        })
    }

    /// Whether some have found nobody yet.
    pub fn are_ahead(&self) -> bool {
        self.with(|state| !state.ahead.is_empty())
    }

    /// Its worker died of something else.
    pub fn put_back(&self, doom: Doom) {
        self.with(|state| state.ahead.push(doom));
    }

    pub fn fulfil(&self, doom: Doom) {
        self.with(|state| *state.fulfilled.entry(doom.point).or_default() += 1);
    }

    pub fn forget_the_rest(&self) {
        self.with(|state| state.ahead.clear());
    }

    pub fn fulfilled(&self) -> BTreeMap<&'static str, usize> {
        self.with(|state| {
            POINTS.iter().map(|point| (*point, state.fulfilled.get(point).copied().unwrap_or(0))).collect()
        })
    }

    pub fn all_fulfilled(&self) -> bool {
        self.with(|state| state.fulfilled.values().sum::<usize>() >= self.planned)
    }
}
