//! Cancelled is cancelled: within a second, wherever the request is, and it says so once.

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use tribunal_shared::request::RequestId;
use tribunal_shared::result::ExecutionStatus;
use tribunal_shared::store::Event;
use tribunal_tests::requests::{request, sleeping};
use tribunal_tests::{Fleet, Ground, PATIENCE, eventually, processes_running};

async fn events_of(fleet: &Fleet, id: &RequestId) -> Vec<Event> {
    let events = fleet.client.events(id, None).await.unwrap();
    events.map(|numbered| numbered.unwrap().event).collect().await
}

fn cancel(fleet: &Fleet, id: &RequestId) -> std::process::Output {
    fleet.cli().arg("cancel").arg(id.as_str()).output().expect("tribunal runs")
}

#[tokio::test]
async fn a_running_request_is_stopped_within_a_second_and_its_place_is_free() {
    // Nobody else sleeps for exactly so long.
    const SECONDS: f64 = 41.203;
    let sleepers = || processes_running(&format!("sleep {SECONDS}"));
    for ground in [Ground::Host, Ground::Docker] {
        let mut fleet = Fleet::on(ground, "worker.slots = 1\n").await;
        fleet.start_worker();
        // Somebody else's worker may run it: any client can stop it.
        let id = fleet.client.submit(sleeping(SECONDS)).await.unwrap();
        eventually("it runs", || sleepers() > 0);
        let asked = Instant::now();
        let cancelled = cancel(&fleet, &id);
        assert!(cancelled.status.success(), "{cancelled:?}");
        eventually("it runs no more", || sleepers() == 0);
        assert!(asked.elapsed() < Duration::from_secs(1), "{ground:?}: {:?}", asked.elapsed());

        let result = fleet.client.wait(&id, Some(PATIENCE)).await.unwrap().expect("a result");
        assert_eq!(result.status, ExecutionStatus::Cancelled, "{result:?}");
        let next = fleet.judge(request("bash", "echo next", &[("", "next")])).await;
        assert_eq!(next.status, ExecutionStatus::AllPassed, "{next:?}");
    }
}

#[tokio::test]
async fn a_queued_request_never_runs_and_is_cancelled_once() {
    let mut fleet = Fleet::on(Ground::Host, "worker.slots = 1\n").await;
    let id = fleet.client.submit(request("bash", "echo ran", &[("", "ran")])).await.unwrap();
    for _ in 0..2 {
        let output = cancel(&fleet, &id);
        assert!(output.status.success(), "{output:?}");
    }
    fleet.start_worker();
    // It is before this one in the queue.
    fleet.judge(request("bash", "echo next", &[("", "next")])).await;
    let events = events_of(&fleet, &id).await;
    assert!(!events.iter().any(|event| matches!(event, Event::Running { .. })), "{events:?}");
    assert_eq!(events.iter().filter(|event| matches!(event, Event::Done { .. })).count(), 1, "{events:?}");
    let result = fleet.client.wait(&id, Some(PATIENCE)).await.unwrap().expect("a result");
    assert_eq!(result.status, ExecutionStatus::Cancelled);
}

#[tokio::test]
async fn what_is_judged_stays_judged() {
    let mut fleet = Fleet::on(Ground::Host, "").await;
    fleet.start_worker();
    let judged = fleet.judge(request("bash", "echo 1", &[("", "1")])).await;
    let id: RequestId = judged.request_id.parse().unwrap();
    let output = cancel(&fleet, &id);
    assert!(!output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("already judged"), "{output:?}");
    assert_eq!(fleet.client.wait(&id, Some(PATIENCE)).await.unwrap(), Some(judged));
}
