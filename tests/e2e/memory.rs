//! However much is queued, and however large the results are, neither workers nor producers take more memory.

use std::process::Command;

use futures_util::{StreamExt, stream};
use tribunal_shared::request::ExecutionRequest;
use tribunal_shared::result::ExecutionStatus;
use tribunal_tests::requests::request;
use tribunal_tests::{Fleet, Ground, binary, eventually};

const FEW: usize = 1_000;
const MANY: usize = 100_000;
/// Enough for everything that a worker keeps to be at its full size.
const JUDGED: usize = 300;
const WITHIN: f64 = 1.1;

/// Submits so many requests by a process of its own, has a worker judge some of them, and says what each of the two took at
/// most, in MB.
async fn producer_and_worker_mb(requests: usize) -> (f64, f64) {
    let mut fleet = Fleet::on(Ground::Host, "worker.slots = 2\nworker.grace_s = 5\nstore.result_ttl_s = 60\n").await;
    let submitter = Command::new(binary("submitter")).arg(fleet.settings_file()).arg(requests.to_string()).output();
    let submitter = submitter.unwrap();
    assert!(submitter.status.success(), "{}", String::from_utf8_lossy(&submitter.stderr));
    let said = String::from_utf8(submitter.stdout).unwrap();
    let (accepted, kb) = said.trim().split_once(' ').unwrap();
    assert_eq!(accepted.parse(), Ok(requests), "all are accepted");
    let queued = fleet.client.depth().await.unwrap().ready;
    assert_eq!(queued, requests as u64);

    let worker = fleet.start_worker();
    eventually("it has judged some", || worker.log().matches("\"all_passed\"").count() >= JUDGED);
    (kb.parse::<f64>().unwrap() / 1024.0, worker.most_resident_mb())
}

#[tokio::test]
async fn a_hundred_thousand_queued_requests_take_no_more_memory_than_a_thousand() {
    let (producer_few, worker_few) = producer_and_worker_mb(FEW).await;
    let (producer_many, worker_many) = producer_and_worker_mb(MANY).await;
    println!("producer: {producer_few:.1} MB for {FEW}, {producer_many:.1} MB for {MANY}");
    println!("worker:   {worker_few:.1} MB for {FEW}, {worker_many:.1} MB for {MANY}");
    assert!(producer_many <= producer_few * WITHIN, "the producer: {producer_few} MB, then {producer_many} MB");
    assert!(worker_many <= worker_few * WITHIN, "the worker: {worker_few} MB, then {worker_many} MB");
}

/// As much output as a result may keep, of the kind that takes most room as JSON.
fn largest() -> ExecutionRequest {
    let tests = vec![("", ""); 40];
    request("bash", "head -c 60000 /dev/zero | tr '\\0' '\\1'", &tests)
}

#[tokio::test]
async fn many_results_of_the_largest_size_take_no_more_memory_than_a_few() {
    let mut fleet = Fleet::on(Ground::Host, "worker.slots = 2\nstore.result_ttl_s = 60\n").await;
    fleet.start_worker().await_line("all languages were looked at");
    let mut most = Vec::new();
    for results in [4, 24] {
        let judged = stream::iter(0..results).map(|_| fleet.judge(largest())).buffer_unordered(4);
        let statuses: Vec<_> = judged.map(|result| result.status).collect().await;
        assert_eq!(statuses, vec![ExecutionStatus::AllFailed; results]);
        most.push(fleet.worker(0).most_resident_mb());
    }
    println!("worker: {:.1} MB, then {:.1} MB", most[0], most[1]);
    assert!(most[1] <= most[0] * 1.25, "the worker: {} MB, then {} MB", most[0], most[1]);
}
