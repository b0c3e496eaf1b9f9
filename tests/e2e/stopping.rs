//! A worker that is told to stop finishes what it has begun, gives back what it has not, and loses nothing.

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use tribunal_shared::request::{ExecutionRequest, RequestId};
use tribunal_shared::result::ExecutionStatus;
use tribunal_shared::store::Event;
use tribunal_tests::requests::request;
use tribunal_tests::{Fleet, Ground, PATIENCE, Worker, eventually, processes_running};

const STOPS: usize = 100;
/// Workers that live side by side.
const LANES: usize = 4;
/// New ones for each stop: about as many as a worker judges meanwhile.
const REQUESTS: usize = 6;
const GRACE: Duration = Duration::from_secs(20);

/// Of two tests, each of which takes a while; what becomes of the second is up to `verdict`.
fn slow(verdict: ExecutionStatus) -> ExecutionRequest {
    let second = if verdict == ExecutionStatus::AllPassed { "2" } else { "another" };
    request("bash", "sleep 0.05; cat", &[("1", "1"), ("2", second)])
}

async fn submit_some(fleet: &Fleet) -> Vec<(RequestId, ExecutionStatus)> {
    let verdicts = [ExecutionStatus::AllPassed, ExecutionStatus::SomePassed].into_iter().cycle().take(REQUESTS);
    let verdicts: Vec<_> = verdicts.collect();
    let outcomes = fleet.client.submit_batch(verdicts.iter().copied().map(slow).collect::<Vec<_>>());
    let ids: Vec<_> = outcomes.map(Result::unwrap).collect().await;
    ids.into_iter().zip(verdicts).collect()
}

/// Starts a worker, lets it work, stops it, and says how many requests it was at when it heard of it.
fn stop_one(fleet: &Fleet, stop: usize) -> usize {
    let mut worker = Worker::start(&fleet.settings_file(), &[]);
    worker.await_line("judged");
    // The moment itself is what is tested.
    std::thread::sleep(Duration::from_millis(stop as u64 % 25 * 5));
    worker.signal("TERM");
    let told = Instant::now();
    let code = worker.wait().code();
    let took = told.elapsed();
    assert_eq!(code, Some(0), "{}", worker.log());
    assert!(took < GRACE, "it took {took:?} to stop:\n{}", worker.log());
    // Its last words may still be on their way to us.
    worker.await_line("stopped");
    running_when_told(&worker.log())
}

/// As the worker says itself.
fn running_when_told(log: &str) -> usize {
    let mut lines = log.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let line = lines.find(|line| line["message"] == "stopping").expect("it says that it stops");
    line["running"].as_u64().expect("it says how many run") as usize
}

async fn events_of(fleet: &Fleet, id: &RequestId) -> Vec<Event> {
    let events = fleet.client.events(id, None).await.unwrap();
    events.map(|numbered| numbered.unwrap().event).collect().await
}

/// Returns when a worker runs it, with the worker's name.
async fn runner_of(fleet: &Fleet, id: &RequestId) -> String {
    let mut events = fleet.client.events(id, None).await.unwrap();
    while let Some(numbered) = events.next().await {
        if let Event::Running { worker, .. } = numbered.unwrap().event {
            return worker;
        }
    }
    panic!("{id} ended without having run");
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_a_hundred_times_in_the_middle_of_work_nothing_is_lost_and_nothing_runs_twice() {
    let settings = format!("worker.slots = 2\nworker.grace_s = {}\nstore.result_ttl_s = 600\n", GRACE.as_secs());
    let mut fleet = Fleet::on(Ground::Host, &settings).await;
    let mut submitted = Vec::new();
    for _ in 0..LANES {
        submitted.extend(submit_some(&fleet).await);
    }
    let mut in_the_middle = 0;
    for round in 0..STOPS / LANES {
        for _ in 0..LANES {
            submitted.extend(submit_some(&fleet).await);
        }
        let running: Vec<_> = std::thread::scope(|scope| {
            let fleet = &fleet;
            let lanes = (0..LANES).map(|lane| scope.spawn(move || stop_one(fleet, round * LANES + lane)));
            let lanes: Vec<_> = lanes.collect();
            lanes.into_iter().map(|lane| lane.join().unwrap()).collect()
        });
        in_the_middle += running.iter().filter(|running| **running > 0).count();
    }
    // Between two requests there is a moment without any.
    assert!(in_the_middle > STOPS * 3 / 4, "only {in_the_middle} of {STOPS} were at work when they were told");

    for _ in 0..2 {
        fleet.start_worker();
    }
    for (id, verdict) in &submitted {
        let result = fleet.client.wait(id, Some(PATIENCE)).await.unwrap();
        let result = result.unwrap_or_else(|| panic!("{id} has no result:\n{}", fleet.logs()));
        assert_eq!(result.status, *verdict, "{result:?}");
        let events = events_of(&fleet, id).await;
        let count = |wanted: fn(&Event) -> bool| events.iter().filter(|event| wanted(event)).count();
        assert_eq!(count(|event| matches!(event, Event::Done { .. })), 1, "{events:?}");
        assert_eq!(count(|event| matches!(event, Event::Running { .. })), 1, "{events:?}");
    }
    let depth = fleet.client.depth().await.unwrap();
    assert_eq!((depth.ready, depth.dead, depth.parked), (0, 0, 0));
}

#[tokio::test]
async fn a_second_signal_ends_a_worker_at_once_and_its_request_runs_elsewhere() {
    let mut fleet = Fleet::on(Ground::Host, "").await;
    fleet.start_worker();
    // A number of its own, to be found by.
    let sleep = format!("sleep 4.{:09}", std::process::id());
    let id = fleet.client.submit(request("bash", &format!("{sleep}; echo 42"), &[("", "42")])).await.unwrap();
    eventually("it runs", || processes_running(&sleep) > 0);
    fleet.worker(0).signal("TERM");
    fleet.worker(0).await_line("stopping");
    fleet.worker(0).signal("TERM");
    let told = Instant::now();
    let code = fleet.worker(0).wait().code();
    let took = told.elapsed();
    assert_eq!(code, Some(3), "{}", fleet.logs());
    assert!(took < Duration::from_secs(1), "it took {took:?} to stop:\n{}", fleet.logs());
    eventually("its programs end with it", || processes_running(&sleep) == 0);
    assert!(told.elapsed() < Duration::from_secs(2), "its programs ran on for {:?}", told.elapsed());

    fleet.start_worker();
    let result = fleet.client.wait(&id, Some(PATIENCE)).await.unwrap().expect("a result");
    assert_eq!(result.status, ExecutionStatus::AllPassed, "{result:?}\n{}", fleet.logs());
}

#[tokio::test]
async fn what_outlasts_the_grace_period_is_judged_by_another_worker() {
    let mut fleet = Fleet::on(Ground::Host, "worker.grace_s = 1\n").await;
    fleet.start_worker();
    let id = fleet.client.submit(request("bash", "sleep 4; echo 42", &[("", "42")])).await.unwrap();
    let first = runner_of(&fleet, &id).await;
    fleet.start_worker();
    fleet.worker(0).signal("TERM");
    let told = Instant::now();
    assert_eq!(fleet.worker(0).wait().code(), Some(0), "{}", fleet.logs());
    assert!(told.elapsed() < Duration::from_secs(3), "it took {:?} to stop:\n{}", told.elapsed(), fleet.logs());

    let result = fleet.client.wait(&id, Some(PATIENCE)).await.unwrap().expect("a result");
    assert_eq!(result.status, ExecutionStatus::AllPassed, "{result:?}\n{}", fleet.logs());
    let events = events_of(&fleet, &id).await;
    let [
        Event::Queued,
        Event::Running { worker, .. },
        Event::GivenBack { worker: giver, .. },
        Event::Running { worker: second, .. },
        Event::Test { .. },
        Event::Done { .. },
    ] = events.as_slice()
    else {
        panic!("{events:?}")
    };
    assert_eq!((worker, giver), (&first, &first));
    assert_ne!(second, &first);
}
