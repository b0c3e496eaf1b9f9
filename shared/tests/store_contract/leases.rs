//! What every store promises about who runs a request, and about workers.

use std::sync::Arc;

use tribunal_shared::config::StoreSettings;
use tribunal_shared::request::RequestId;
use tribunal_shared::result::Attempt;
use tribunal_shared::store::{Blame, Event, Lease, State, Take, WorkerReport};

use crate::promises::{Store, connect};
use crate::support::{soon, until};
use crate::{begin, digest, done, result, running};

async fn take(store: &Store, id: &RequestId, worker: &str) -> (Lease, Take) {
    let lease = Lease::new(worker);
    let taken = store.take(id, &digest("mine"), &lease, 3).await.unwrap();
    (lease, taken)
}

fn report(name: &str) -> WorkerReport {
    WorkerReport {
        name: name.into(),
        host: "here".into(),
        version: "1.2.3".into(),
        queue: "q".into(),
        slots: 4,
        running: 2,
        done: 7,
        languages: vec!["rust".into()],
        missing: Vec::new(),
        unready: String::new(),
    }
}

/// A name that no other test uses: workers are not kept apart by request.
fn worker() -> String {
    format!("w-{}", uuid::Uuid::new_v4().simple())
}

async fn beat(store: &Store, name: &str) {
    assert_eq!(store.beat(&report(name), &[]).await.unwrap(), []);
}

pub async fn every_attempt_is_counted_up_to_the_last(settings: StoreSettings) {
    let (store, id) = (connect(&settings).await, RequestId::generate());
    store.confirm(&id, &digest("mine")).await.unwrap();
    for attempt in 1..=2 {
        assert_eq!(take(&store, &id, "w").await.1, Take::Begun { attempt });
        assert_eq!(store.state(&id).await.unwrap(), State::Running);
    }
    assert_eq!(take(&store, &id, "w").await.1, Take::Alone);
    let alone = Lease::alone("w");
    for _ in 0..2 {
        let taken = store.take(&id, &digest("mine"), &alone, 3).await.unwrap();
        assert_eq!(taken, Take::Begun { attempt: 3 });
    }
    assert_eq!(take(&store, &id, "w").await.1, Take::Exhausted);
    assert_eq!(take(&store, &id, "another").await.1, Take::Exhausted);
    store.put(&id, None, &result(&id, "x")).await.unwrap();
    assert_eq!(take(&store, &id, "w").await.1, Take::Done, "a result is more than the end of attempts");
}

/// The answer may get lost on its way.
pub async fn taking_it_twice_with_one_lease_is_one_attempt(settings: StoreSettings) {
    let (store, id) = (connect(&settings).await, RequestId::generate());
    let lease = Lease::new("w");
    for _ in 0..5 {
        let taken = store.take(&id, &digest("mine"), &lease, 1).await.unwrap();
        assert_eq!(taken, Take::Begun { attempt: 1 });
    }
    store.put(&id, None, &result(&id, "x")).await.unwrap();
    assert_eq!(crate::following::all(&store, &id).await, [running(1), done()]);
}

pub async fn what_a_living_worker_runs_is_not_taken_from_it(settings: StoreSettings) {
    let (store, id, owner) = (connect(&settings).await, RequestId::generate(), worker());
    beat(&store, &owner).await;
    assert_eq!(take(&store, &id, &owner).await.1, Take::Begun { attempt: 1 });
    assert_eq!(take(&store, &id, "another").await.1, Take::Elsewhere { worker: owner.clone() });
    // It is silent from now on, as the dead are.
    let taken = until(async || take(&store, &id, "another").await.1, |taken| !is_elsewhere(taken)).await;
    assert_eq!(taken, Take::Begun { attempt: 2 });
}

/// Its word that it gave it back may get lost, with a server that fails over.
pub async fn what_a_living_worker_does_not_run_any_more_is_taken_from_it(settings: StoreSettings) {
    let (store, id, owner) = (connect(&settings).await, RequestId::generate(), worker());
    beat(&store, &owner).await;
    take(&store, &id, &owner).await;
    let began = std::time::Instant::now();
    while began.elapsed() < std::time::Duration::from_millis(2500) {
        store.beat(&report(&owner), std::slice::from_ref(&id)).await.unwrap();
        assert!(is_elsewhere(&take(&store, &id, "another").await.1), "after {:?}", began.elapsed());
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    let taken = async || {
        beat(&store, &owner).await;
        take(&store, &id, "another").await.1
    };
    assert_eq!(until(taken, |taken| !is_elsewhere(taken)).await, Take::Begun { attempt: 2 });
    // What it says from now on of another's request counts for nothing.
    assert_eq!(store.beat(&report(&owner), std::slice::from_ref(&id)).await.unwrap(), []);
    assert!(matches!(take(&store, &id, "third").await.1, Take::Alone), "the other one was never heard of");
}

fn is_elsewhere(taken: &Take) -> bool {
    matches!(taken, Take::Elsewhere { .. })
}

pub async fn what_a_worker_gave_back_can_be_taken_at_once(settings: StoreSettings) {
    let (store, id, owner) = (connect(&settings).await, RequestId::generate(), worker());
    beat(&store, &owner).await;
    let (lease, _) = take(&store, &id, &owner).await;
    store.give_back(&id, &lease, "no disk", Blame::Request).await.unwrap();
    assert_eq!(store.state(&id).await.unwrap(), State::Queued);
    assert_eq!(take(&store, &id, "another").await.1, Take::Begun { attempt: 2 });
    // And what is held by one that has left.
    let (id, owner) = (RequestId::generate(), worker());
    beat(&store, &owner).await;
    take(&store, &id, &owner).await;
    store.leave(&owner).await.unwrap();
    assert_eq!(take(&store, &id, "another").await.1, Take::Begun { attempt: 2 });
}

pub async fn an_attempt_that_was_the_workers_fault_does_not_count(settings: StoreSettings) {
    let (store, id) = (connect(&settings).await, RequestId::generate());
    for _ in 0..10 {
        let (lease, taken) = take(&store, &id, "w").await;
        assert_eq!(taken, Take::Begun { attempt: 1 });
        store.give_back(&id, &lease, "no daemon", Blame::Worker).await.unwrap();
        store.give_back(&id, &lease, "said twice", Blame::Worker).await.unwrap();
    }
}

pub async fn a_worker_that_lost_its_lease_is_not_listened_to(settings: StoreSettings) {
    let (store, id) = (connect(&settings).await, RequestId::generate());
    let frozen = begin(&*store, &id).await;
    let lease = begin(&*store, &id).await;
    let late = Event::Compiled { time_ms: 1 };
    store.record(&id, &frozen, &late).await.unwrap();
    store.give_back(&id, &frozen, "late", Blame::Worker).await.unwrap();
    let event = Event::Compiled { time_ms: 2 };
    store.record(&id, &lease, &event).await.unwrap();
    assert_eq!(store.state(&id).await.unwrap(), State::Running);
    assert!(store.put(&id, None, &result(&id, "x")).await.unwrap());
    assert_eq!(crate::following::all(&store, &id).await, [running(1), running(2), event, done()]);
}

pub async fn of_many_that_take_it_one_begins(settings: StoreSettings) {
    let (store, id) = (connect(&settings).await, RequestId::generate());
    let takers: Vec<_> = (0..16)
        .map(|_| {
            let (store, id, name) = (Arc::clone(&store), id.clone(), worker());
            tokio::spawn(async move {
                beat(&store, &name).await;
                take(&store, &id, &name).await.1
            })
        })
        .collect();
    let mut begun = 0;
    for taker in takers {
        match soon(taker).await.unwrap() {
            Take::Begun { attempt: 1 } => begun += 1,
            taken => assert!(is_elsewhere(&taken), "{taken:?}"),
        }
    }
    assert_eq!(begun, 1);
}

pub async fn a_body_that_the_id_does_not_belong_to_is_not_begun(settings: StoreSettings) {
    let (store, id) = (connect(&settings).await, RequestId::generate());
    store.claim(&id, &digest("other")).await.unwrap();
    assert_eq!(take(&store, &id, "w").await.1, Take::Conflict);
    assert_eq!(store.state(&id).await.unwrap(), State::Unknown);
    store.put(&id, None, &result(&id, "x")).await.unwrap();
    assert_eq!(take(&store, &id, "w").await.1, Take::Conflict);
}

pub async fn history_tells_how_each_attempt_ended(settings: StoreSettings) {
    let (store, id) = (connect(&settings).await, RequestId::generate());
    assert_eq!(store.history(&id).await.unwrap(), []);
    let (lease, _) = take(&store, &id, "one").await;
    store.record(&id, &lease, &Event::Compiled { time_ms: 1 }).await.unwrap();
    store.give_back(&id, &lease, "no \"disk\"\n", Blame::Request).await.unwrap();
    take(&store, &id, "other").await;
    let attempt = |attempt, worker: &str, end: &str| Attempt { attempt, worker: worker.into(), end: end.into() };
    let expected = [attempt(1, "one", "no \"disk\"\n"), attempt(2, "other", "its worker died")];
    assert_eq!(store.history(&id).await.unwrap(), expected);
}

pub async fn a_worker_hears_which_of_its_requests_are_done(settings: StoreSettings) {
    let store = connect(&settings).await;
    let ids = [RequestId::generate(), RequestId::generate(), RequestId::generate()];
    store.put(&ids[1], None, &result(&ids[1], "x")).await.unwrap();
    let done = store.beat(&report(&worker()), &ids).await.unwrap();
    assert_eq!(done, [ids[1].clone()]);
}

pub async fn workers_are_listed_until_they_leave(settings: StoreSettings) {
    let (store, name) = (connect(&settings).await, worker());
    let listed = async || {
        let workers = store.workers().await.unwrap();
        workers.into_iter().find(|worker| worker.report.name == name)
    };
    assert_eq!(listed().await, None);
    beat(&store, &name).await;
    let found = listed().await.expect("it was just heard of");
    assert_eq!(found.report, report(&name));
    assert!(found.alive && found.last_heartbeat_ms < 2000, "{found:?}");
    let silent = until(&listed, |found| found.as_ref().is_some_and(|found| !found.alive)).await;
    assert!(silent.is_some_and(|silent| silent.last_heartbeat_ms >= 2000), "it is shown for a while");
    store.leave(&name).await.unwrap();
    assert_eq!(listed().await, None);
}

pub async fn what_is_forgotten_starts_anew(settings: StoreSettings) {
    let (store, id) = (connect(&settings).await, RequestId::generate());
    for _ in 0..2 {
        store.confirm(&id, &digest("mine")).await.unwrap();
        assert_eq!(take(&store, &id, "w").await.1, Take::Begun { attempt: 1 });
        assert!(store.put(&id, None, &result(&id, "x")).await.unwrap());
        assert_eq!(crate::following::all(&store, &id).await, [Event::Queued, running(1), done()]);
        assert!(!store.forget(&id, &digest("another's")).await.unwrap(), "it is not theirs to forget");
        assert!(matches!(store.state(&id).await.unwrap(), State::Done(_)));
        assert!(store.forget(&id, &digest("mine")).await.unwrap());
        assert_eq!(store.state(&id).await.unwrap(), State::Unknown);
    }
    assert!(store.forget(&id, &digest("mine")).await.unwrap(), "there is nothing that belongs to others");
}

pub async fn what_a_living_worker_runs_does_not_expire(settings: StoreSettings) {
    let settings = StoreSettings { result_ttl_s: 1, ..settings };
    let (store, id, name) = (connect(&settings).await, RequestId::generate(), worker());
    assert!(matches!(take(&store, &id, &name).await.1, Take::Begun { .. }));
    let began = std::time::Instant::now();
    while began.elapsed() < std::time::Duration::from_millis(2500) {
        store.beat(&report(&name), std::slice::from_ref(&id)).await.unwrap();
        assert_eq!(store.state(&id).await.unwrap(), State::Running, "after {:?}", began.elapsed());
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    until(async || store.state(&id).await.unwrap(), |state| *state == State::Unknown).await;
}
