//! Who goes first: priorities overtake without starving anybody, and a worker may be bound to some languages.

use tribunal_shared::request::{ExecutionRequest, RequestId};
use tribunal_shared::result::ExecutionStatus;
use tribunal_shared::store::{Event, State};
use tribunal_tests::requests::{request, sleeping};
use tribunal_tests::{Fleet, Ground, PATIENCE, Worker};

use futures_util::StreamExt;

async fn submit(fleet: &Fleet, count: usize, priority: &str, seconds: f64) -> Vec<RequestId> {
    let request = || ExecutionRequest { priority: Some(priority.into()), ..sleeping(seconds) };
    let outcomes: Vec<_> = fleet.client.submit_batch((0..count).map(|_| request())).collect().await;
    outcomes.into_iter().map(|outcome| outcome.expect("it is accepted")).collect()
}

/// When they ended, by the store's clock, in their order.
async fn ends(fleet: &Fleet, ids: &[RequestId]) -> Vec<(u64, u64)> {
    let mut ends = Vec::new();
    for id in ids {
        fleet.client.wait(id, Some(PATIENCE)).await.unwrap().unwrap_or_else(|| panic!("no result:\n{}", fleet.logs()));
        let events: Vec<_> = fleet.client.events(id, None).await.unwrap().map(Result::unwrap).collect().await;
        let done = events.iter().find(|numbered| matches!(numbered.event, Event::Done { .. })).expect("it ended");
        let (milliseconds, number) = done.id.split_once('-').expect("an id of a stream");
        ends.push((milliseconds.parse().unwrap(), number.parse().unwrap()));
    }
    ends
}

#[tokio::test]
async fn high_overtakes_normal_and_normal_overtakes_low() {
    let mut fleet = Fleet::on(Ground::Host, "worker.slots = 4\n").await;
    let low = submit(&fleet, 16, "low", 0.1).await;
    let normal = submit(&fleet, 16, "normal", 0.1).await;
    let high = submit(&fleet, 16, "high", 0.1).await;
    fleet.start_worker();
    let mean = |ends: Vec<(u64, u64)>| ends.iter().map(|end| end.0).sum::<u64>() / ends.len() as u64;
    let (low, normal, high) = (ends(&fleet, &low).await, ends(&fleet, &normal).await, ends(&fleet, &high).await);
    let (low, normal, high) = (mean(low), mean(normal), mean(high));
    assert!(high < normal && normal < low, "the later is first: high {high}, normal {normal}, low {low}");
}

#[tokio::test]
async fn low_is_not_starved_by_any_number_of_high_ones() {
    let mut fleet = Fleet::on(Ground::Host, "worker.slots = 1\n").await;
    let high = submit(&fleet, 80, "high", 0.01).await;
    let low = submit(&fleet, 2, "low", 0.01).await;
    fleet.start_worker();
    let (high, low) = (ends(&fleet, &high).await, ends(&fleet, &low).await);
    let before = |end: &(u64, u64)| high.iter().filter(|other| *other < end).count();
    let waited: Vec<_> = low.iter().map(before).collect();
    // Their weights are 80 and 5: one in seventeen.
    assert!(waited[0] <= 40 && waited[1] < 80, "high ones that were judged before: {waited:?}");
}

#[tokio::test]
async fn a_worker_bound_to_a_language_takes_nothing_else() {
    let mut fleet = Fleet::on(Ground::Host, "queue.separate = [\"bash\"]\n").await;
    let bound = Worker::start(&fleet.settings_file(), &[("TRIBUNAL_WORKER__LANGUAGES", "bash")]);
    bound.await_line("connected to the queue");
    let python = fleet.client.submit(request("python", "print(1)", &[("", "1")])).await.unwrap();
    let bash = fleet.judge(request("bash", "echo 1", &[("", "1")])).await;
    assert_eq!(bash.status, ExecutionStatus::AllPassed, "{bash:?}\n{}", bound.log());
    assert_eq!(fleet.client.poll(&python).await.unwrap(), State::Queued);
    fleet.start_worker();
    let python = fleet.client.wait(&python, Some(PATIENCE)).await.unwrap().expect("a result");
    assert_eq!(python.status, ExecutionStatus::AllPassed, "{python:?}");
}
