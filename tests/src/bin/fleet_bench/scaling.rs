//! What more workers bring. Programs sleep, so that it is the fleet that is measured and not the machine's cores; workers
//! are added while others work, and nothing is started anew.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};
use tribunal_shared::request::RequestId;
use tribunal_shared::result::ExecutionStatus;
use tribunal_shared::store::Event;
use tribunal_tests::requests::request;
use tribunal_tests::{Fleet, Ground, PATIENCE};

use crate::{Bound, Promise};

const SLOTS: usize = 2;
const MOST_WORKERS: usize = 4;
/// So many times all slots of the largest fleet.
const REQUESTS: usize = 6 * SLOTS * MOST_WORKERS;
const WITHIN: f64 = 0.1;

pub async fn measure() -> Vec<Promise> {
    let mut fleet = Fleet::on(Ground::Host, &format!("worker.slots = {SLOTS}\nstore.result_ttl_s = 300\n")).await;
    fleet.start_worker().await_line("all languages were looked at");
    let mut pids = vec![fleet.worker(0).pid()];
    // The caches.
    drained(&fleet, SLOTS).await;

    println!("{REQUESTS} requests that sleep for a second, {SLOTS} slots a worker");
    let mut times = Vec::new();
    for workers in [1, 2, MOST_WORKERS] {
        while pids.len() < workers {
            let busy = submitted(&fleet, SLOTS * pids.len()).await;
            let added = fleet.start_worker();
            pids.push(added.pid());
            added.await_line("all languages were looked at");
            judged(&fleet, &busy).await;
        }
        let (time, took_part) = drained(&fleet, REQUESTS).await;
        println!("  {workers} workers  {:8.2} s", time.as_secs_f64());
        assert_eq!(took_part, workers, "every worker has a part in it");
        times.push((workers, time));
    }
    let alive: Vec<_> = (0..pids.len()).map(|index| fleet.worker(index).pid()).collect();
    assert_eq!(alive, pids);
    for index in 0..pids.len() {
        assert!(fleet.worker(index).is_running(), "a worker ended:\n{}", fleet.logs());
    }

    let (_, alone) = times[0];
    let speed_ups = times[1..].iter().map(|(workers, time)| Promise {
        what: format!("speed-up by {workers} workers, times {workers}"),
        value: alone.as_secs_f64() / time.as_secs_f64() / *workers as f64,
        bound: Bound::AtLeast(1.0 - WITHIN),
    });
    speed_ups.collect()
}

/// From the first submission to the last result, and how many workers had a part in it.
async fn drained(fleet: &Fleet, requests: usize) -> (Duration, usize) {
    let began = Instant::now();
    let ids = submitted(fleet, requests).await;
    judged(fleet, &ids).await;
    let took = began.elapsed();
    (took, workers_of(fleet, &ids).await.len())
}

async fn submitted(fleet: &Fleet, requests: usize) -> Vec<RequestId> {
    let requests: Vec<_> = (0..requests).map(|_| request("bash", "sleep 1; echo 42", &[("", "42")])).collect();
    fleet.client.submit_batch(requests).map(|outcome| outcome.expect("the request is accepted")).collect().await
}

/// Returns when all have a result.
async fn judged(fleet: &Fleet, ids: &[RequestId]) {
    let of_one = async |id: &RequestId| {
        let result = fleet.client.wait(id, Some(PATIENCE)).await.expect("the store answers");
        let result = result.unwrap_or_else(|| panic!("no result for {id}:\n{}", fleet.logs()));
        assert_eq!(result.status, ExecutionStatus::AllPassed, "{result:?}");
    };
    stream::iter(ids).map(of_one).buffer_unordered(ids.len()).collect::<Vec<()>>().await;
}

/// Those that began any of the requests, by name.
async fn workers_of(fleet: &Fleet, ids: &[RequestId]) -> BTreeSet<String> {
    let mut workers = BTreeSet::new();
    for id in ids {
        let mut events = fleet.client.events(id, None).await.expect("the store answers");
        while let Some(numbered) = events.next().await {
            if let Event::Running { worker, .. } = numbered.expect("the store answers").event {
                workers.insert(worker);
            }
        }
    }
    workers
}
