//! What a worker counts, for Prometheus. Labels are few and of known words: nothing that a request could make up.

use std::time::Duration;

use metrics::{counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use tribunal_shared::result::{ExecutionResult, ExecutionStatus};

const QUEUE_WAIT: &str = "tribunal_queue_wait_seconds";
const COMPILE: &str = "tribunal_compile_seconds";
const RUN: &str = "tribunal_run_seconds";
const REQUEST: &str = "tribunal_request_seconds";
const REQUESTS: &str = "tribunal_requests_total";
const REDELIVERIES: &str = "tribunal_redeliveries_total";
const DEAD_LETTERS: &str = "tribunal_dead_letters_total";
const DUPLICATES: &str = "tribunal_duplicates_dropped_total";
const CANCELLED: &str = "tribunal_cancelled_total";
const SANDBOX_ERRORS: &str = "tribunal_sandbox_errors_total";
const SLOTS: &str = "tribunal_slots";
const SLOTS_BUSY: &str = "tribunal_slots_busy";
const RUNNING: &str = "tribunal_requests_running";
const READY: &str = "tribunal_ready";

/// From a millisecond, which a native test can take, to the minutes that a request may take.
const SECONDS: [f64; 15] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0];

/// From here on what is counted is kept.
pub fn install() -> Result<PrometheusHandle, BuildError> {
    let builder = PrometheusBuilder::new();
    let handle = builder.set_buckets_for_metric(Matcher::Suffix("_seconds".into()), &SECONDS)?.install_recorder()?;
    describe_histogram!(QUEUE_WAIT, "From publishing to the first delivery");
    describe_histogram!(COMPILE, "Compiling");
    describe_histogram!(RUN, "One test, wall time of the program alone");
    describe_histogram!(REQUEST, "From the delivery to the stored result");
    describe_counter!(REQUESTS, "Results stored");
    describe_counter!(REDELIVERIES, "Deliveries that were not the first of their message");
    describe_counter!(DEAD_LETTERS, "Messages given up");
    describe_counter!(DUPLICATES, "Results that came second, and were dropped");
    describe_counter!(CANCELLED, "Requests that were stopped because they had a result already");
    describe_counter!(SANDBOX_ERRORS, "Failures of the sandbox, never of a program");
    describe_gauge!(SLOTS, "Programs that may run at once");
    describe_gauge!(SLOTS_BUSY, "Programs that run");
    describe_gauge!(RUNNING, "Requests in this worker's hands");
    describe_gauge!(READY, "1 if a part that the worker needs is in order");
    // There from the start, so that a rate can be computed from the first one on.
    for name in [REDELIVERIES, DEAD_LETTERS, DUPLICATES, CANCELLED] {
        counter!(name).absolute(0);
    }
    Ok(handle)
}

pub fn waited(language: &str, time: Duration) {
    histogram!(QUEUE_WAIT, "language" => language.to_owned()).record(time);
}

pub fn compiled(language: &str, successful: bool, time: Duration) {
    let status = if successful { "compiled" } else { ExecutionStatus::CompilationError.as_str() };
    histogram!(COMPILE, "language" => language.to_owned(), "status" => status).record(time);
}

/// The result of a request that was judged, and all its tests.
pub fn judged(language: &str, result: &ExecutionResult, time: Duration) {
    let status = result.status.as_str();
    histogram!(REQUEST, "language" => language.to_owned(), "status" => status).record(time);
    counter!(REQUESTS, "language" => language.to_owned(), "status" => status).increment(1);
    for test in &result.test_results {
        let time = Duration::from_millis(test.execution_time_ms);
        histogram!(RUN, "language" => language.to_owned(), "status" => test.status.as_str()).record(time);
    }
}

pub fn redelivered() {
    counter!(REDELIVERIES).increment(1);
}

pub fn buried() {
    counter!(DEAD_LETTERS).increment(1);
}

pub fn duplicate_dropped() {
    counter!(DUPLICATES).increment(1);
}

pub fn cancelled() {
    counter!(CANCELLED).increment(1);
}

pub fn sandbox_failed(kind: &'static str) {
    counter!(SANDBOX_ERRORS, "kind" => kind).increment(1);
}

pub fn load(slots: usize, busy: usize, running: usize) {
    gauge!(SLOTS).set(slots as f64);
    gauge!(SLOTS_BUSY).set(busy as f64);
    gauge!(RUNNING).set(running as f64);
}

pub fn ready(part: &'static str, fine: bool) {
    gauge!(READY, "part" => part).set(f64::from(u8::from(fine)));
}
