//! What every store promises to those who follow a request.

use futures_util::StreamExt;
use tribunal_shared::config::StoreSettings;
use tribunal_shared::request::RequestId;
use tribunal_shared::result::TestStatus;
use tribunal_shared::store::{Event, Events, Numbered};

use crate::promises::{Store, connect};
use crate::support::{not_now, soon};
use crate::{begin, digest, done, result, running};

async fn follow(store: &Store, id: &RequestId, after: Option<String>) -> Events {
    soon(store.events(id, after)).await.expect("the events can be followed")
}

async fn next(events: &mut Events) -> Numbered {
    soon(events.next()).await.expect("an event").expect("no error")
}

async fn numbered(store: &Store, id: &RequestId, after: Option<String>) -> Vec<Numbered> {
    let events = follow(store, id, after).await;
    soon(events.map(Result::unwrap).collect()).await
}

/// All events of a request that is done.
pub async fn all(store: &Store, id: &RequestId) -> Vec<Event> {
    numbered(store, id, None).await.into_iter().map(|numbered| numbered.event).collect()
}

pub async fn assert_nothing_after_done(store: &Store, id: &RequestId) {
    let last = numbered(store, id, None).await.pop().unwrap();
    assert_eq!(last.event, done());
    not_now(follow(store, id, Some(last.id)).await.next()).await;
}

/// The events of a request with two tests.
fn story() -> [Event; 5] {
    let test = |index| Event::Test {
        index,
        total: 2,
        test_id: format!("t\"{index}"),
        status: TestStatus::Passed,
        execution_time_ms: 5,
        memory_used_kb: 6,
    };
    [Event::Queued, running(1), Event::Compiled { time_ms: 7 }, test(1), test(0)]
}

/// Tells the story of `id`, but for its end.
async fn tell(store: &Store, id: &RequestId) {
    store.claim(id, &digest("mine")).await.unwrap();
    store.confirm(id, &digest("mine")).await.unwrap();
    let lease = begin(&**store, id).await;
    for event in &story()[2..] {
        store.record(id, &lease, event).await.unwrap();
    }
}

pub async fn events_come_from_the_start_and_end_with_the_result(settings: StoreSettings) {
    let store = connect(&settings).await;
    let id = RequestId::generate();
    tell(&store, &id).await;
    store.put(&id, None, &result(&id, "x")).await.unwrap();
    let mut whole = story().to_vec();
    whole.push(done());
    assert_eq!(all(&store, &id).await, whole);
    assert_eq!(all(&store, &id).await, whole, "reading takes nothing away");
}

pub async fn following_resumes_after_an_event(settings: StoreSettings) {
    let store = connect(&settings).await;
    let id = RequestId::generate();
    tell(&store, &id).await;
    store.put(&id, None, &result(&id, "x")).await.unwrap();
    let whole = numbered(&store, &id, None).await;
    assert_eq!(whole.len(), 6);
    for (index, event) in whole.iter().enumerate().take(5) {
        assert_eq!(numbered(&store, &id, Some(event.id.clone())).await, whole[index + 1..]);
    }
}

pub async fn a_confirmation_is_one_event_however_often_it_is_repeated(settings: StoreSettings) {
    let store = connect(&settings).await;
    let id = RequestId::generate();
    store.claim(&id, &digest("mine")).await.unwrap();
    store.confirm(&id, &digest("mine")).await.unwrap();
    store.confirm(&id, &digest("mine")).await.unwrap();
    begin(&*store, &id).await;
    store.confirm(&id, &digest("mine")).await.unwrap();
    store.put(&id, None, &result(&id, "x")).await.unwrap();
    store.confirm(&id, &digest("mine")).await.unwrap();
    assert_eq!(all(&store, &id).await, [Event::Queued, running(1), done()]);
}

pub async fn who_follows_before_the_first_event_is_woken(settings: StoreSettings) {
    let store = connect(&settings).await;
    let id = RequestId::generate();
    let mut events = follow(&store, &id, None).await;
    let first = tokio::spawn(async move { (next(&mut events).await, events) });
    store.claim(&id, &digest("mine")).await.unwrap();
    assert!(!first.is_finished(), "a claim is no event");
    store.confirm(&id, &digest("mine")).await.unwrap();
    let (first, mut events) = soon(first).await.unwrap();
    assert_eq!(first.event, Event::Queued);
    store.put(&id, None, &result(&id, "x")).await.unwrap();
    assert_eq!(next(&mut events).await.event, done());
    assert!(soon(events.next()).await.is_none());
}

pub async fn a_follower_is_told_of_each_event_as_it_happens(settings: StoreSettings) {
    let store = connect(&settings).await;
    let id = RequestId::generate();
    let mut events = follow(&store, &id, None).await;
    for attempt in 1..=50 {
        begin(&*store, &id).await;
        assert_eq!(next(&mut events).await.event, running(attempt));
    }
    not_now(events.next()).await;
    store.put(&id, None, &result(&id, "x")).await.unwrap();
    assert_eq!(next(&mut events).await.event, done());
    assert!(soon(events.next()).await.is_none());
}

pub async fn a_follower_outlives_a_released_claim(settings: StoreSettings) {
    let store = connect(&settings).await;
    let id = RequestId::generate();
    store.claim(&id, &digest("mine")).await.unwrap();
    let mut events = follow(&store, &id, None).await;
    store.release(&id).await.unwrap();
    store.claim(&id, &digest("other")).await.unwrap();
    store.confirm(&id, &digest("mine")).await.unwrap();
    assert_eq!(next(&mut events).await.event, Event::Queued);
}

pub async fn who_resumes_after_it_was_forgotten_sees_what_comes_anew(settings: StoreSettings) {
    let (store, id) = (connect(&settings).await, RequestId::generate());
    tell(&store, &id).await;
    let mut events = follow(&store, &id, None).await;
    let mut last = None;
    for event in story() {
        let numbered = next(&mut events).await;
        assert_eq!(numbered.event, event);
        last = Some(numbered.id);
    }
    drop(events);
    assert!(store.forget(&id, &digest("mine")).await.unwrap());
    store.put(&id, Some(&digest("mine")), &result(&id, "x")).await.unwrap();
    assert_eq!(next(&mut follow(&store, &id, last).await).await.event, done());
}

pub async fn two_hundred_follow_at_once(settings: StoreSettings) {
    let store = connect(&settings).await;
    let id = RequestId::generate();
    let mut followers = Vec::new();
    for _ in 0..200 {
        let events = follow(&store, &id, None).await;
        followers.push(tokio::spawn(events.map(|event| event.unwrap().event).collect::<Vec<_>>()));
    }
    tell(&store, &id).await;
    store.put(&id, None, &result(&id, "x")).await.unwrap();
    for follower in followers {
        let events = soon(follower).await.unwrap();
        assert_eq!((&events[..5], &events[5..]), (story().as_slice(), [done()].as_slice()));
    }
}

pub async fn a_follower_that_leaves_is_not_missed(settings: StoreSettings) {
    let store = connect(&settings).await;
    let id = RequestId::generate();
    let mut leaving = follow(&store, &id, None).await;
    let mut staying = follow(&store, &id, None).await;
    begin(&*store, &id).await;
    assert_eq!(next(&mut leaving).await.event, running(1));
    not_now(leaving.next()).await;
    drop(leaving);
    store.put(&id, None, &result(&id, "x")).await.unwrap();
    assert_eq!(next(&mut staying).await.event, running(1));
    assert_eq!(next(&mut staying).await.event, done());
    assert_eq!(all(&store, &id).await, [running(1), done()]);
}
