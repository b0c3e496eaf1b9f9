//! What others may rely on in Redis: names, contents and lifetimes of keys.

use futures_util::StreamExt;
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use redis::streams::StreamRangeReply;
use serde_json::Value;
use tribunal_shared::config::StoreSettings;
use tribunal_shared::request::RequestId;
use tribunal_shared::store::{Claim, Event, State, StoreError};

use crate::promises::connect;
use crate::support::{not_now, service, soon, until};
use crate::{begin, digest, result, running, settings};

/// A client that is not ours.
async fn raw() -> MultiplexedConnection {
    let client = redis::Client::open(service("TEST_REDIS_URL")).unwrap();
    client.get_multiplexed_async_connection().await.expect("Redis can be reached")
}

fn here() -> StoreSettings {
    settings(service("TEST_REDIS_URL"))
}

#[tokio::test]
async fn a_result_is_plain_json_under_its_id() {
    let (store, id) = (connect(&here()).await, RequestId::generate());
    store.put(&id, None, &result(&id, "out")).await.unwrap();
    let text: String = raw().await.get(format!("tribunal:result:{id}")).await.unwrap();
    let json: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json, serde_json::to_value(result(&id, "out")).unwrap());
    assert_eq!((&json["request_id"], &json["status"]), (&id.as_str().into(), &"all_passed".into()));
}

#[tokio::test]
async fn every_key_has_a_time_to_live_at_every_step() {
    let (store, id, mut raw) = (connect(&here()).await, RequestId::generate(), raw().await);
    let mut assert_all_expire = async |expected: &[&str], step: &str| {
        let mut keys: Vec<String> = raw.keys(format!("tribunal:*:{id}")).await.unwrap();
        keys.sort_unstable();
        let names: Vec<_> = keys.iter().map(|key| key.split(':').nth(1).unwrap()).collect();
        assert_eq!(names, expected, "{step}");
        for key in &keys {
            let left_ms: i64 = raw.pttl(key).await.unwrap();
            assert!((1..=60_000).contains(&left_ms), "{step}: {key} lives for {left_ms} ms");
        }
    };
    store.claim(&id, &digest("mine")).await.unwrap();
    assert_all_expire(&["request"], "claim").await;
    store.confirm(&id, &digest("mine")).await.unwrap();
    assert_all_expire(&["request"], "confirm").await;
    let lease = begin(&*store, &id).await;
    assert_all_expire(&["events", "request"], "running").await;
    store.record(&id, &lease, &Event::Compiled { time_ms: 1 }).await.unwrap();
    assert_all_expire(&["events", "request"], "compiled").await;
    store.put(&id, None, &result(&id, "x")).await.unwrap();
    assert_all_expire(&["events", "request", "result"], "put").await;
    store.claim(&id, &digest("mine")).await.unwrap();
    begin(&*store, &id).await;
    assert_all_expire(&["events", "request", "result"], "too late").await;
}

/// A stream takes kilobytes, and much is queued at times.
#[tokio::test]
async fn what_is_only_queued_has_no_stream_unless_somebody_waits_for_it() {
    let (store, id, mut raw) = (connect(&here()).await, RequestId::generate(), raw().await);
    let key = format!("tribunal:events:{id}");
    store.confirm(&id, &digest("mine")).await.unwrap();
    let mut events = store.events(&id, None).await.unwrap();
    let queued = soon(events.next()).await.unwrap().unwrap();
    assert_eq!(queued.event, Event::Queued);
    assert!(!raw.exists::<_, bool>(&key).await.unwrap());

    begin(&*store, &id).await;
    assert_eq!(soon(events.next()).await.unwrap().unwrap().event, running(1), "it is not told twice");
    let first: StreamRangeReply = raw.xrange_count(&key, "-", "+", 1).await.unwrap();
    assert_eq!(first.ids[0].id, queued.id, "it has its place in the stream, too");
}

#[tokio::test]
async fn who_waits_for_an_unknown_request_leaves_nothing_for_long() {
    let (store, id, mut raw) = (connect(&here()).await, RequestId::generate(), raw().await);
    let mut events = store.events(&id, None).await.unwrap();
    not_now(events.next()).await;
    let left_ms: i64 = raw.pttl(format!("tribunal:events:{id}")).await.unwrap();
    assert!((1..=20_000).contains(&left_ms), "lives for {left_ms} ms");
}

#[tokio::test]
async fn keys_of_a_result_that_comes_out_of_nowhere_expire_too() {
    let (store, id, mut raw) = (connect(&here()).await, RequestId::generate(), raw().await);
    store.put(&id, None, &result(&id, "x")).await.unwrap();
    for key in ["events", "result"] {
        let left_ms: i64 = raw.pttl(format!("tribunal:{key}:{id}")).await.unwrap();
        assert!((1..=60_000).contains(&left_ms), "{key} lives for {left_ms} ms");
    }
}

/// A state that outlived its result would promise one that never comes, to the caller and to the next submission.
#[tokio::test]
async fn a_request_that_is_submitted_again_and_again_does_not_outlive_its_result() {
    let store = connect(&StoreSettings { result_ttl_s: 1, ..here() }).await;
    let id = RequestId::generate();
    store.claim(&id, &digest("mine")).await.unwrap();
    store.confirm(&id, &digest("mine")).await.unwrap();
    begin(&*store, &id).await;
    store.put(&id, None, &result(&id, "x")).await.unwrap();
    let again = async || {
        let claim = store.claim(&id, &digest("mine")).await.unwrap();
        let state = store.state(&id).await.unwrap();
        assert!(!matches!(state, State::Queued | State::Running), "{claim:?}: {state:?}");
        claim
    };
    assert_eq!(again().await, Claim::Accepted);
    until(again, |claim| *claim == Claim::New).await;
}

#[tokio::test]
async fn something_else_under_a_results_key_is_named() {
    let (store, id) = (connect(&here()).await, RequestId::generate());
    let key = format!("tribunal:result:{id}");
    let _: () = raw().await.set_ex(&key, b"\xff no result", 60).await.unwrap();
    let error = store.state(&id).await.unwrap_err();
    assert!(matches!(&error, StoreError::Unreadable { key: named, .. } if *named == key), "{error}");
}

#[tokio::test]
async fn an_event_of_a_newer_version_is_passed_over() {
    let (store, id, mut raw) = (connect(&here()).await, RequestId::generate(), raw().await);
    let key = format!("tribunal:events:{id}");
    for entry in [("event", r#"{"event":"from_the_future","x":1}"#), ("event", "no JSON"), ("another", "field")] {
        let _: String = raw.xadd(&key, "*", &[entry]).await.unwrap();
    }
    store.put(&id, None, &result(&id, "x")).await.unwrap();
    assert_eq!(crate::following::all(&store, &id).await, [crate::done()]);
}

#[tokio::test]
async fn an_end_of_a_newer_version_is_an_end() {
    let (store, id, mut raw) = (connect(&here()).await, RequestId::generate(), raw().await);
    begin(&*store, &id).await;
    let entry = [("event", r#"{"event":"done","status":"from_the_future"}"#)];
    let _: String = raw.xadd(format!("tribunal:events:{id}"), "*", &entry).await.unwrap();
    assert_eq!(crate::following::all(&store, &id).await, [running(1)]);
}

/// The server's clock can go back, and a stream that is made anew begins before what was seen of the old one.
#[tokio::test]
async fn nobody_waits_for_an_event_that_was_numbered_too_low() {
    let (store, id) = (connect(&here()).await, RequestId::generate());
    let events = store.events(&id, Some("9999999999999-0".into())).await.unwrap();
    store.put(&id, None, &result(&id, "x")).await.unwrap();
    let rest: Vec<_> = soon(events.collect()).await;
    assert!(rest.is_empty(), "{rest:?}");
}

#[tokio::test]
async fn two_processes_see_the_same() {
    let (one, other, id) = (connect(&here()).await, connect(&here()).await, RequestId::generate());
    assert_eq!(one.claim(&id, &digest("mine")).await.unwrap(), Claim::New);
    assert_eq!(other.claim(&id, &digest("other")).await.unwrap(), Claim::Conflict);
    assert!(other.put(&id, None, &result(&id, "x")).await.unwrap());
    assert!(!one.put(&id, None, &result(&id, "y")).await.unwrap());
    assert_eq!(one.state(&id).await.unwrap(), State::Done(Box::new(result(&id, "x"))));
}
