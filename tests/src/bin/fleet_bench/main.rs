//! What the fleet itself costs, beside the bare parts that it is made of, in the same run: how fast requests are taken in,
//! how long an idle fleet takes to answer, and what more workers bring. `tests/run bench` runs it, as root.
//!
//! Each number has a goal, and says when it misses it. It fails the run when it is far beyond: a noisy machine is no reason for
//! that.

mod bare;
mod latency;
mod rate;
mod scaling;
mod trip;

use std::process::ExitCode;

use tribunal_worker::sandbox::native;

/// One number, and what it is to keep to.
struct Promise {
    what: String,
    value: f64,
    goal: Goal,
}

#[derive(Clone, Copy)]
enum Goal {
    AtLeast(f64),
    AtMost(f64),
}

/// What a noisy machine may take from a number that keeps to its goal on a quiet one.
const NOISE: f64 = 1.35;

impl Goal {
    fn is_kept_by(self, value: f64) -> bool {
        match self {
            Self::AtLeast(least) => value >= least,
            Self::AtMost(most) => value <= most,
        }
    }

    fn is_far_from(self, value: f64) -> bool {
        let tolerated = match self {
            Self::AtLeast(least) => Self::AtLeast(least / NOISE),
            Self::AtMost(most) => Self::AtMost(most * NOISE),
        };
        !tolerated.is_kept_by(value)
    }
}

impl Promise {
    fn is_broken(&self) -> bool {
        self.goal.is_far_from(self.value)
    }

    fn print(&self) {
        let goal = match self.goal {
            Goal::AtLeast(least) => format!("at least {least:.2}"),
            Goal::AtMost(most) => format!("at most {most:.2}"),
        };
        let verdict = match (self.goal.is_kept_by(self.value), self.is_broken()) {
            (true, _) => "ok",
            (false, false) => "misses its goal",
            (false, true) => "FAILED",
        };
        println!("  {:<58} {:8.2}  (goal: {goal}) {verdict}", self.what, self.value);
    }
}

fn main() -> ExitCode {
    native::serve_if_zygote();
    // Words choose among the parts; none means all.
    let chosen: Vec<_> = std::env::args().skip(1).collect();
    let wanted = |part: &str| chosen.is_empty() || chosen.iter().any(|word| word == part);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let promises = runtime.block_on(async {
        let mut promises = Vec::new();
        if wanted("rate") {
            promises.extend(rate::measure().await);
        }
        if wanted("latency") {
            promises.push(latency::measure().await);
        }
        if wanted("scaling") {
            promises.extend(scaling::measure().await);
        }
        promises
    });
    println!("the fleet");
    promises.iter().for_each(Promise::print);
    ExitCode::from(u8::from(promises.is_empty() || promises.iter().any(Promise::is_broken)))
}

fn median(numbers: impl IntoIterator<Item = f64>) -> f64 {
    let mut numbers: Vec<_> = numbers.into_iter().collect();
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}
