//! What is Redis's alone: one that evicts, is full, is not there, does not answer or goes away.

use futures_util::StreamExt;
use tribunal_shared::config::StoreSettings;
use tribunal_shared::request::RequestId;
use tribunal_shared::store::{self, Claim, State, StoreError};

use crate::promises::connect;
use crate::server::Server;
use crate::support::{STRANGERS, black_hole, closed_port, soon, stranger, within_5_s};
use crate::{begin, digest, result, settings};

async fn refusal(settings: &StoreSettings) -> StoreError {
    within_5_s(store::connect(settings)).await.err().expect("the store is refused")
}

async fn assert_unreachable(url: &str, address: &str, reasons: &[&str]) {
    let error = refusal(&settings(url)).await;
    let text = error.to_string();
    assert!(matches!(error, StoreError::Unreachable { .. }), "{text}");
    assert!(text.starts_with(&format!("cannot reach Redis at {address}: ")), "{text}");
    assert!(text.contains("TRIBUNAL_STORE__URL"), "the remedy is named: {text}");
    assert!(!text.contains("s3cret"), "{text}");
    assert!(reasons.iter().any(|reason| text.contains(reason)), "{text}");
}

#[tokio::test]
async fn a_closed_port_is_named_in_time() {
    let port = closed_port().await;
    let url = format!("redis://:s3cret@127.0.0.1:{port}/");
    assert_unreachable(&url, &format!("redis://127.0.0.1:{port}/"), &["refused"]).await;
}

#[tokio::test]
async fn a_port_that_never_answers_is_named_in_time() {
    let (_listener, port) = black_hole().await;
    let url = format!("redis://:s3cret@127.0.0.1:{port}/");
    assert_unreachable(&url, &format!("redis://127.0.0.1:{port}/"), &["no answer", "timed out"]).await;
}

#[tokio::test]
async fn a_wrong_password_is_refused_and_not_shown() {
    let server = Server::start(&["--requirepass", "right"]).await;
    let address = server.url();
    for credentials in [":s3cret@", ""] {
        let url = address.replace("redis://", &format!("redis://{credentials}"));
        assert_unreachable(&url, &address, &["WRONGPASS", "invalid username-password", "authentication", "NOAUTH"])
            .await;
    }
    let right = address.replace("redis://", "redis://:right@");
    let id = RequestId::generate();
    assert_eq!(connect(&settings(right)).await.state(&id).await.unwrap(), State::Unknown);
}

#[tokio::test]
async fn a_database_that_does_not_exist_is_named() {
    let server = Server::start(&[]).await;
    let url = format!("{}99", server.url());
    assert_unreachable(&url, &url, &["DB index is out of range", "database"]).await;
}

#[tokio::test]
async fn what_is_no_redis_is_called_so() {
    for answer in STRANGERS {
        let url = format!("redis://127.0.0.1:{}/", stranger(answer).await);
        assert_unreachable(&url, &url, &["does not speak Redis's protocol"]).await;
    }
}

#[tokio::test]
async fn tls_is_refused_rather_than_left_out() {
    let error = refusal(&settings("rediss://:s3cret@host/")).await;
    assert!(matches!(error, StoreError::NoTls { .. }), "{error}");
    let text = error.to_string();
    assert!(text.starts_with("store.url: rediss://host/ asks for TLS") && text.contains("TLS tunnel"), "{text}");
}

#[tokio::test]
async fn what_is_no_address_of_a_store_is_refused_at_once() {
    for url in ["", "localhost:6379", "http://me:s3cret@host/", "amqp://host/", "me:s3cret@host", "s3cret"] {
        let error = refusal(&settings(url)).await;
        assert!(matches!(error, StoreError::UnknownScheme { .. }), "{error}");
        assert!(error.to_string().contains("starts with redis:// or memory://"), "{error}");
        assert!(!error.to_string().contains("s3cret"), "{error}");
    }
    let error = refusal(&settings("redis://me:s3cret@host:99999/")).await;
    assert!(!error.to_string().contains("s3cret"), "{error}");
}

#[tokio::test]
async fn a_redis_that_evicts_is_refused_with_an_explanation_unless_that_is_accepted() {
    for policy in ["allkeys-lru", "volatile-ttl"] {
        let server = Server::start(&["--maxmemory-policy", policy]).await;
        let error = refusal(&settings(server.url())).await;
        let text = error.to_string();
        assert!(matches!(&error, StoreError::Evicts { policy: named, .. } if named == policy), "{text}");
        for part in [server.url().as_str(), policy, "results could vanish", "noeviction", "store.allow_eviction"] {
            assert!(text.contains(part), "{part} in: {text}");
        }
        let accepted = StoreSettings { allow_eviction: true, ..settings(server.url()) };
        let id = RequestId::generate();
        assert!(connect(&accepted).await.put(&id, None, &result(&id, "x")).await.unwrap());
    }
}

#[tokio::test]
async fn a_redis_that_is_full_says_so_and_is_not_called_unreachable() {
    let server = Server::start(&["--maxmemory", "1"]).await;
    let (store, id) = (connect(&settings(server.url())).await, RequestId::generate());
    let error = soon(store.put(&id, None, &result(&id, "x"))).await.unwrap_err();
    assert!(matches!(error, StoreError::Refused { .. }), "{error}");
    assert!(error.to_string().contains("maxmemory") && error.to_string().contains(&server.url()), "{error}");
    assert_eq!(store.state(&id).await.unwrap(), State::Unknown);
}

#[tokio::test]
async fn after_a_restart_the_next_call_works_and_nothing_is_lost() {
    let mut server = Server::start(&[]).await;
    let store = connect(&settings(server.url())).await;
    let (first, second) = (RequestId::generate(), RequestId::generate());
    let mut restart = async || {
        server.kill();
        server.start_again().await;
    };
    assert_eq!(store.claim(&first, &digest("mine")).await.unwrap(), Claim::New);
    restart().await;
    store.confirm(&first, &digest("mine")).await.unwrap();
    restart().await;
    assert_eq!(soon(store.state(&first)).await.unwrap(), State::Queued);
    restart().await;
    assert!(soon(store.put(&first, None, &result(&first, "x"))).await.unwrap());
    restart().await;
    assert_eq!(soon(store.claim(&first, &digest("mine"))).await.unwrap(), Claim::Accepted);
    restart().await;
    soon(begin(&*store, &second)).await;
    restart().await;
    let events = soon(store.events(&first, None)).await.unwrap();
    let events: Vec<_> = soon(events.map(|event| event.unwrap().event).collect()).await;
    assert_eq!(events, [store::Event::Queued, crate::done()]);
    assert_eq!(store.state(&first).await.unwrap(), State::Done(Box::new(result(&first, "x"))));
}

#[tokio::test]
async fn while_redis_is_away_every_call_fails_in_time_and_afterwards_it_works() {
    let mut server = Server::start(&[]).await;
    let (store, id) = (connect(&settings(server.url())).await, RequestId::generate());
    begin(&*store, &id).await;
    let mut events = soon(store.events(&id, None)).await.unwrap();
    soon(events.next()).await.unwrap().unwrap();
    let following = tokio::spawn(async move { (events.next().await, events.next().await.is_none()) });

    server.kill();
    let (error, ended) = soon(following).await.unwrap();
    assert!(matches!(error, Some(Err(StoreError::Unreachable { .. }))), "who follows is told");
    assert!(ended, "and can follow anew");
    let errors = [
        within_5_s(store.state(&id)).await.expect_err("state"),
        within_5_s(store.claim(&id, &digest("mine"))).await.expect_err("claim"),
        within_5_s(store.confirm(&id, &digest("mine"))).await.expect_err("confirm"),
        within_5_s(store.put(&id, None, &result(&id, "x"))).await.expect_err("put"),
        within_5_s(store.events(&id, None)).await.err().expect("events"),
    ];
    for error in errors {
        assert!(matches!(error, StoreError::Unreachable { .. }), "{error}");
        assert!(error.to_string().contains(&server.url()), "{error}");
    }

    server.start_again().await;
    assert_eq!(soon(store.state(&id)).await.unwrap(), State::Running);
}
