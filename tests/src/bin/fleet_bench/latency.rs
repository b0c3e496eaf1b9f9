//! How long a caller waits for the answer of an idle fleet, without the time that the sandbox itself takes; beside the same
//! way through the broker and the store with nothing of ours on it.

use std::time::{Duration, Instant};

use tribunal_shared::request::{ExecutionRequest, Job};
use tribunal_shared::result::ExecutionStatus;
use tribunal_tests::requests::request;
use tribunal_tests::{Fleet, Ground};
use tribunal_worker::sandbox::{self, Sandbox};
use tribunal_worker::trial;

use crate::trip::Trip;
use crate::{Bound, Promise, median};

const ROUNDS: usize = 200;
/// The caches.
const UNCOUNTED: usize = 20;
const AT_MOST_MS: f64 = 8.0;
/// Between two rounds, so that the fleet is idle again.
const GAP: Duration = Duration::from_millis(20);

pub async fn measure() -> Promise {
    let mut fleet = Fleet::on(Ground::Host, "store.result_ttl_s = 300\n").await;
    let mut trip = Trip::new().await;
    // A sandbox of our own, for the same programs without a fleet.
    let mut settings = fleet.settings.clone();
    settings.sandbox.workspace_root = fleet.folder.path().join("own");
    let sandbox = sandbox::from_config(&settings).await.expect("the sandbox starts");
    fleet.start_worker().await_line("all languages were looked at");

    let (mut whole, mut in_sandbox, mut bare) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..UNCOUNTED + ROUNDS {
        let times = (judged(&fleet).await, executed(&fleet, &*sandbox).await, trip.make().await);
        if round >= UNCOUNTED {
            whole.push(times.0);
            in_sandbox.push(times.1);
            bare.push(times.2);
        }
        tokio::time::sleep(GAP).await;
    }
    sandbox.settle().await;

    println!("from submission to result, an idle fleet, {ROUNDS} rounds in turns         p50      p95");
    for (what, times) in [
        ("the whole way through the fleet", &whole),
        ("the sandbox alone, in this process", &in_sandbox),
        ("RabbitMQ and Redis alone: publish, consume, set, notify", &bare),
    ] {
        println!("  {what:<58} {:8.2} {:8.2} ms", median(times.iter().copied()), percentile(times, 0.95));
    }
    let value = median(whole) - median(in_sandbox);
    Promise {
        what: "answer of an idle fleet, p50 without the sandbox, ms".into(),
        value,
        bound: Bound::AtMost(AT_MOST_MS),
    }
}

fn percentile(times: &[f64], part: f64) -> f64 {
    let mut times = times.to_vec();
    times.sort_by(f64::total_cmp);
    times[((times.len() - 1) as f64 * part) as usize]
}

fn ms_since(began: Instant) -> f64 {
    began.elapsed().as_secs_f64() * 1000.0
}

fn trivial() -> ExecutionRequest {
    request("bash", "echo 42", &[("", "42")])
}

async fn judged(fleet: &Fleet) -> f64 {
    let request = trivial();
    let began = Instant::now();
    let result = fleet.judge(request).await;
    let took = ms_since(began);
    assert_eq!(result.status, ExecutionStatus::AllPassed, "{result:?}");
    took
}

/// The road of a judgement from its beginning in the worker to the facts: workspace, source, run.
async fn executed(fleet: &Fleet, sandbox: &dyn Sandbox) -> f64 {
    let settings = &fleet.settings;
    let job = Job::check(trivial(), &settings.limits, &settings.languages()).expect("a valid request");
    let began = Instant::now();
    let trial = trial::run(&job, b"", sandbox, &settings.sandbox).await.expect("the sandbox runs");
    let took = ms_since(began);
    assert!(matches!(trial, trial::Trial::Ran { fault: None, .. }));
    took
}
