//! What the fleet itself costs, beside the bare parts that it is made of, in the same run: how fast requests are taken in,
//! how long an idle fleet takes to answer, and what more workers bring. `tests/run bench` runs it, as root.
//!
//! Each number has a bound; a number beyond its bound fails the run.

mod bare;
mod latency;
mod rate;
mod scaling;
mod trip;

use std::process::ExitCode;

use tribunal_worker::sandbox::native;

/// One number, and what it must keep to.
struct Promise {
    what: String,
    value: f64,
    bound: Bound,
}

enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

impl Promise {
    fn is_kept(&self) -> bool {
        match self.bound {
            Bound::AtLeast(least) => self.value >= least,
            Bound::AtMost(most) => self.value <= most,
        }
    }

    fn print(&self) {
        let bound = match self.bound {
            Bound::AtLeast(least) => format!("at least {least:.2}"),
            Bound::AtMost(most) => format!("at most {most:.2}"),
        };
        let verdict = if self.is_kept() { "ok" } else { "FAILED" };
        println!("  {:<58} {:8.2}  ({bound}) {verdict}", self.what, self.value);
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
    ExitCode::from(u8::from(promises.is_empty() || !promises.iter().all(Promise::is_kept)))
}

fn median(numbers: impl IntoIterator<Item = f64>) -> f64 {
    let mut numbers: Vec<_> = numbers.into_iter().collect();
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}
