//! Nobody waits for ever: what a lost worker ran is soon running elsewhere, and ends once.

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use tribunal_shared::request::RequestId;
use tribunal_shared::result::ExecutionStatus;
use tribunal_shared::store::Event;
use tribunal_tests::requests::sleeping;
use tribunal_tests::{Fleet, Ground, PATIENCE};

/// The broker's patience with a silent worker, at most three of its looks, and a second for the rest.
const FROZEN_NOTICED_WITHIN: Duration = Duration::from_secs(10);

/// Waits until it runs for the `attempt`-th time.
async fn runs(fleet: &Fleet, id: &RequestId, attempt: u32) {
    let mut events = fleet.client.events(id, None).await.unwrap();
    let waiting = async {
        while let Some(numbered) = events.next().await {
            if matches!(numbered.unwrap().event, Event::Running { attempt: own, .. } if own == attempt) {
                return;
            }
        }
        panic!("it ended before:\n{}", fleet.logs());
    };
    tokio::time::timeout(PATIENCE, waiting).await.expect("it runs");
}

/// Two workers, the first of which runs a request.
async fn two_workers() -> (Fleet, RequestId) {
    let mut fleet = Fleet::on(Ground::Host, "worker.slots = 1\n").await;
    fleet.start_worker();
    let id = fleet.client.submit(sleeping(2.0)).await.unwrap();
    runs(&fleet, &id, 1).await;
    fleet.start_worker();
    (fleet, id)
}

async fn ends_once(fleet: &Fleet, id: &RequestId) {
    let result = fleet.client.wait(id, Some(PATIENCE)).await.unwrap().expect("a result");
    assert_eq!(result.status, ExecutionStatus::AllPassed, "{result:?}");
    let events: Vec<_> =
        fleet.client.events(id, None).await.unwrap().map(|numbered| numbered.unwrap().event).collect().await;
    assert_eq!(events.iter().filter(|event| matches!(event, Event::Done { .. })).count(), 1, "{events:?}");
}

#[tokio::test]
async fn what_a_killed_worker_ran_runs_elsewhere_within_five_seconds() {
    let (mut fleet, id) = two_workers().await;
    let died = Instant::now();
    fleet.worker(0).kill();
    runs(&fleet, &id, 2).await;
    assert!(died.elapsed() < Duration::from_secs(5), "{:?}", died.elapsed());
    ends_once(&fleet, &id).await;
}

#[tokio::test]
async fn what_a_frozen_worker_ran_runs_elsewhere_soon_and_it_does_no_harm_when_it_wakes() {
    let (mut fleet, id) = two_workers().await;
    let frozen = Instant::now();
    fleet.worker(0).signal("STOP");
    runs(&fleet, &id, 2).await;
    println!("running elsewhere after {:?}", frozen.elapsed());
    assert!(frozen.elapsed() < FROZEN_NOTICED_WITHIN, "{:?}", frozen.elapsed());
    fleet.worker(0).signal("CONT");
    ends_once(&fleet, &id).await;
    // It is fit again: with the other one gone, it is the one who works.
    fleet.worker(1).kill();
    let result = fleet.judge(sleeping(0.1)).await;
    assert_eq!(result.status, ExecutionStatus::AllPassed, "{result:?}");
}
