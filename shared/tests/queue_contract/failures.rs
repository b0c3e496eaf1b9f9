//! What is RabbitMQ's alone: messages of others, and a broker that is not there, does not answer or goes away.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lapin::BasicProperties;
use lapin::options::{BasicPublishOptions, QueueDeclareOptions, QueueDeleteOptions};
use lapin::types::{AMQPValue, FieldTable};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tribunal_shared::config::QueueSettings;
use tribunal_shared::queue::{self, DeadLetter, Depth, Message, QueueError};
use tribunal_shared::request::RequestId;
use url::Url;

use crate::proxy::Proxy;
use crate::support::{STRANGERS, black_hole, closed_port, service, soon, stranger, until, within_5_s};
use crate::{raw, with_queues};

fn settings(url: String) -> QueueSettings {
    QueueSettings { url, name: format!("test-{}", uuid::Uuid::new_v4()), separate: Vec::new() }
}

fn message(body: &str) -> Message {
    crate::promises::message(&RequestId::generate(), body.as_bytes())
}

/// Everything that can be asked of a broker fails in time and says where, but not with which password.
async fn assert_unreachable(settings: &QueueSettings, address: &str, reasons: &[&str]) {
    let broker = queue::connect(settings).unwrap();
    let errors = [
        within_5_s(broker.publish(message("x"))).await.expect_err("publish"),
        within_5_s(broker.consume(&[], 1)).await.err().expect("consume"),
        within_5_s(broker.depth()).await.expect_err("depth"),
    ];
    for error in errors {
        let text = error.to_string();
        assert!(matches!(error, QueueError::Unreachable { .. }), "{text}");
        assert!(text.starts_with(&format!("cannot reach RabbitMQ at {address}: ")), "{text}");
        assert!(text.contains("TRIBUNAL_QUEUE__URL"), "the remedy is named: {text}");
        assert!(!text.contains("s3cret"), "{text}");
        assert!(reasons.iter().any(|reason| text.contains(reason)), "{text}");
    }
}

#[tokio::test]
async fn a_closed_port_is_named_in_time() {
    let port = closed_port().await;
    let settings = settings(format!("amqp://me:s3cret@127.0.0.1:{port}/%2f"));
    assert_unreachable(&settings, &format!("amqp://127.0.0.1:{port}/%2f"), &["refused"]).await;
}

#[tokio::test]
async fn a_host_that_does_not_exist_is_named_in_time() {
    let settings = settings("amqp://me:s3cret@no-such-host.invalid:5672/%2f".into());
    // Without a resolver there is no answer at all.
    assert_unreachable(&settings, "amqp://no-such-host.invalid:5672/%2f", &["lookup", "resolve", "no answer"]).await;
}

#[tokio::test]
async fn a_port_that_never_answers_is_named_in_time() {
    let (_listener, port) = black_hole().await;
    let settings = settings(format!("amqp://me:s3cret@127.0.0.1:{port}/%2f"));
    assert_unreachable(&settings, &format!("amqp://127.0.0.1:{port}/%2f"), &["no answer within 4 s"]).await;
}

#[tokio::test]
async fn many_that_publish_at_once_do_not_wait_for_each_others_failure() {
    let (_listener, port) = black_hole().await;
    let broker = queue::connect(&settings(format!("amqp://127.0.0.1:{port}/"))).unwrap();
    let publishers: Vec<_> = (0..10)
        .map(|_| {
            let broker = Arc::clone(&broker);
            tokio::spawn(async move { broker.publish(message("x")).await })
        })
        .collect();
    within_5_s(async {
        for publisher in publishers {
            assert!(matches!(publisher.await.unwrap(), Err(QueueError::Unreachable { .. })));
        }
    })
    .await;
}

#[tokio::test]
async fn a_wrong_password_is_refused_and_not_shown() {
    let mut url = Url::parse(&service("TEST_AMQP_URL")).unwrap();
    url.set_username("nobody").unwrap();
    url.set_password(Some("s3cret")).unwrap();
    let address = tribunal_shared::address::without_credentials(url.as_str());
    assert_unreachable(&settings(url.into()), &address, &["ACCESS_REFUSED", "ACCESS-REFUSED"]).await;
}

#[tokio::test]
async fn a_virtual_host_that_does_not_exist_is_named() {
    let mut url = Url::parse(&service("TEST_AMQP_URL")).unwrap();
    url.set_path("/no-such-vhost");
    let address = tribunal_shared::address::without_credentials(url.as_str());
    assert_unreachable(&settings(url.into()), &address, &["no-such-vhost not found", "NOT_ALLOWED", "NOT-ALLOWED"])
        .await;
}

#[tokio::test]
async fn an_url_without_a_virtual_host_is_told_how_to_name_the_default_one() {
    let mut url = Url::parse(&service("TEST_AMQP_URL")).unwrap();
    url.set_path("/");
    let address = tribunal_shared::address::without_credentials(url.as_str());
    assert_unreachable(&settings(url.into()), &address, &["the default one is written /%2f"]).await;
}

#[tokio::test]
async fn what_is_no_rabbitmq_is_called_so() {
    for answer in STRANGERS {
        let port = stranger(answer).await;
        let settings = settings(format!("amqp://127.0.0.1:{port}/%2f"));
        assert_unreachable(&settings, &format!("amqp://127.0.0.1:{port}/%2f"), &["does not speak AMQP"]).await;
    }
}

#[test]
fn tls_is_refused_rather_than_left_out() {
    let error = queue::connect(&settings("amqps://me:s3cret@host/%2f".into())).err().expect("TLS is not built in");
    assert!(matches!(error, QueueError::NoTls { .. }), "{error}");
    let text = error.to_string();
    assert!(text.starts_with("queue.url: amqps://host/%2f asks for TLS") && text.contains("TLS tunnel"), "{text}");
}

#[test]
fn what_is_no_address_of_a_queue_is_refused_at_once() {
    for url in ["", "localhost:5672", "http://me:s3cret@host/", "redis://host/", "me:s3cret@host", "s3cret", "AMQP//x"]
    {
        let error = queue::connect(&settings(url.into())).err().expect(url);
        assert!(matches!(error, QueueError::UnknownScheme { .. }), "{error}");
        assert!(error.to_string().contains("starts with amqp:// or memory://"), "{error}");
        assert!(!error.to_string().contains("s3cret"), "{error}");
    }
    let error = queue::connect(&settings("amqp://me:s3cret@host:99999/".into())).err().expect("no such port");
    assert!(error.to_string().contains("invalid port number"), "{error}");
    assert!(!error.to_string().contains("s3cret"), "{error}");
}

#[tokio::test]
async fn a_plain_message_of_another_client_is_delivered() {
    with_queues(async |settings| {
        let broker = queue::connect(&settings).unwrap();
        let mut consumer = soon(broker.consume(&[], 1)).await.unwrap();
        let connection = raw(&settings.url).await;
        let channel = connection.create_channel().await.unwrap();
        let requests = format!("{}.requests", settings.name);
        let publish = async |properties: BasicProperties| {
            let options = BasicPublishOptions::default();
            channel.basic_publish("".into(), requests.as_str().into(), options, b"{}", properties).await.unwrap();
        };

        publish(BasicProperties::default()).await;
        let plain = soon(consumer.next()).await.unwrap();
        assert_eq!((plain.body.as_slice(), plain.attempt), (b"{}".as_slice(), 1));
        assert_eq!((&plain.message_id, &plain.kind), (&None, &None));
        soon(plain.give_back()).await.unwrap();
        let again = soon(consumer.next()).await.unwrap();
        assert_eq!((again.attempt, &again.message_id), (2, &None));
        soon(again.ack()).await.unwrap();

        publish(BasicProperties::default().with_type("another".into()).with_message_id("any text".into())).await;
        let other = soon(consumer.next()).await.unwrap();
        assert_eq!(other.kind.as_deref(), Some("another"));
        assert_eq!(other.message_id.as_deref(), Some("any text"));
        soon(other.ack()).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_message_that_no_queue_takes_is_not_accepted() {
    with_queues(async |settings| {
        let broker = queue::connect(&settings).unwrap();
        soon(broker.publish(message("first"))).await.unwrap();
        let connection = raw(&settings.url).await;
        let channel = connection.create_channel().await.unwrap();
        let requests = format!("{}.requests", settings.name);
        channel.queue_delete(requests.into(), QueueDeleteOptions::default()).await.unwrap();
        let error = soon(broker.publish(message("second"))).await.unwrap_err();
        assert!(matches!(&error, QueueError::NotAccepted { reason, .. } if reason == "no queue takes it"), "{error}");
    })
    .await;
}

#[tokio::test]
async fn a_queue_of_another_making_is_refused() {
    with_queues(async |settings| {
        let connection = raw(&settings.url).await;
        let channel = connection.create_channel().await.unwrap();
        let requests = format!("{}.requests", settings.name);
        let (classic, arguments) = (QueueDeclareOptions::durable(), FieldTable::default());
        channel.queue_declare(requests.as_str().into(), classic, arguments).await.unwrap();
        let error = soon(queue::connect(&settings).unwrap().publish(message("x"))).await.unwrap_err().to_string();
        assert!(error.contains("inequivalent arg") && error.contains(&requests), "{error}");
        assert!(error.contains("choose another queue.name"), "the remedy is named: {error}");
    })
    .await;
}

#[tokio::test]
async fn looking_makes_no_queues() {
    with_queues(async |settings| {
        let depth = soon(queue::connect(&settings).unwrap().depth()).await.unwrap();
        assert!(depth.queues.iter().all(|(_, ready)| *ready == 0), "{depth:?}");
        assert_eq!(Depth { queues: Vec::new(), ..depth }, Depth::default());
        let connection = raw(&settings.url).await;
        for queue in crate::QUEUES {
            let channel = connection.create_channel().await.unwrap();
            let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
            let name = format!("{}.{queue}", settings.name);
            let error = channel.queue_declare(name.into(), passive, FieldTable::default()).await.unwrap_err();
            assert!(error.to_string().contains("no queue"), "{error}");
        }
    })
    .await;
}

/// The settings of a queue behind a proxy.
async fn proxied(settings: &QueueSettings) -> (Proxy, QueueSettings) {
    let mut url = Url::parse(&settings.url).unwrap();
    let target = (url.host_str().unwrap().to_owned(), url.port().unwrap_or(5672));
    let proxy = Proxy::to(target).await;
    url.set_host(Some("127.0.0.1")).unwrap();
    url.set_port(Some(proxy.port)).unwrap();
    (proxy, QueueSettings { url: url.into(), ..settings.clone() })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_connection_is_an_error_and_what_was_unsettled_comes_again() {
    with_queues(async |settings| {
        let (proxy, through_proxy) = proxied(&settings).await;
        let broker = queue::connect(&through_proxy).unwrap();
        let mut consumer = soon(broker.consume(&[], 2)).await.unwrap();
        soon(broker.publish(message("unsettled"))).await.unwrap();
        let delivery = soon(consumer.next()).await.unwrap();

        proxy.cut();
        let error = soon(consumer.next()).await.err().expect("the connection is cut");
        assert!(matches!(error, QueueError::Lost { .. }), "{error}");
        let error = soon(delivery.ack()).await.expect_err("the connection is cut");
        assert!(matches!(error, QueueError::Lost { .. }), "{error}");

        let delivery = soon(soon(broker.consume(&[], 1)).await.unwrap().next()).await.unwrap();
        assert_eq!((delivery.body.as_slice(), delivery.attempt), (b"unsettled".as_slice(), 2));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn publishing_works_again_after_a_cut_and_nothing_confirmed_is_lost() {
    with_queues(async |settings| {
        let (proxy, through_proxy) = proxied(&settings).await;
        let broker = queue::connect(&through_proxy).unwrap();
        let mut confirmed = 0;
        for _ in 0..5 {
            soon(broker.publish(message("x"))).await.unwrap();
            confirmed += 1;
            proxy.cut();
            // What is in flight may fail; it must not hang, and soon it works. Nobody can say that it was refused.
            let publish = async || match broker.publish(message("x")).await {
                Err(error @ QueueError::NotAccepted { .. }) => panic!("{error}"),
                outcome => outcome.is_ok(),
            };
            until(publish, |ok| *ok).await;
            confirmed += 1;
        }
        until(async || broker.depth().await.unwrap().ready, |ready| *ready >= confirmed).await;
    })
    .await;
}

/// RabbitMQ confirms a declaration that finds another one under way, and has no queue yet.
#[tokio::test(flavor = "multi_thread")]
async fn a_whole_fleet_starts_at_once_on_a_fresh_broker() {
    for _ in 0..10 {
        with_queues(async |settings| {
            let members: Vec<_> = (0..8)
                .map(|member| {
                    let broker = queue::connect(&settings).unwrap();
                    tokio::spawn(async move {
                        match member % 2 {
                            0 => soon(broker.consume(&[], 1)).await.map(drop),
                            _ => soon(broker.publish(message("x"))).await,
                        }
                    })
                })
                .collect();
            for member in members {
                member.await.unwrap().expect("it starts");
            }
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_is_deleted_ends_the_subscription_to_all_of_them() {
    with_queues(async |settings| {
        let broker = queue::connect(&settings).unwrap();
        let mut consumer = soon(broker.consume(&[], 1)).await.unwrap();
        let connection = raw(&settings.url).await;
        let channel = connection.create_channel().await.unwrap();
        let queue = format!("{}.requests", settings.name);
        channel.queue_delete(queue.into(), QueueDeleteOptions::default()).await.unwrap();
        let error = soon(consumer.next()).await.err().expect("nobody would take what is published there next");
        assert!(matches!(error, QueueError::Lost { .. }), "{error}");
    })
    .await;
}

/// What a producer says of where its message comes from is nothing to go by.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_names_a_queue_goes_back_to_one_of_ours() {
    with_queues(async |settings| {
        let broker = queue::connect(&settings).unwrap();
        let connection = raw(&settings.url).await;
        let channel = connection.create_channel().await.unwrap();
        let mut consumer = soon(broker.consume(&[], 1)).await.unwrap();
        let mut forged = FieldTable::default();
        for header in ["tribunal-queue", "x-first-death-queue", "traceparent"] {
            forged.insert(header.into(), AMQPValue::LongString("x".repeat(30_000).into()));
        }
        let queue = format!("{}.requests", settings.name);
        let properties = BasicProperties::default().with_headers(forged);
        let published = channel.basic_publish("".into(), queue.as_str().into(), Default::default(), b"x", properties);
        published.await.unwrap().await.unwrap();
        let delivery = soon(consumer.next()).await.unwrap();
        assert_eq!((&delivery.queue, &delivery.traceparent), (&queue, &None));
        soon(broker.park(&delivery)).await.unwrap();
        soon(broker.bury(&DeadLetter::of(&delivery, None, "forged", Vec::new()))).await.unwrap();
        soon(delivery.ack()).await.unwrap();
        assert_eq!(soon(broker.dead_letters(1)).await.unwrap()[0].queue, queue);
        assert_eq!(soon(broker.unpark()).await.unwrap(), 1);
        assert_eq!(soon(consumer.next()).await.unwrap().queue, queue);
    })
    .await;
}

/// An attempt that is given up lives on in our client; against a silent broker there must not be more and more of them.
#[tokio::test(flavor = "multi_thread")]
async fn a_silent_broker_is_not_met_by_more_and_more_connections() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let open = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&open);
    tokio::spawn(async move {
        while let Ok((mut caller, _)) = listener.accept().await {
            let open = Arc::clone(&counted);
            open.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(async move {
                while caller.read(&mut [0; 64]).await.is_ok_and(|bytes| bytes > 0) {}
                open.fetch_sub(1, Ordering::SeqCst);
            });
        }
    });
    let broker = queue::connect(&settings(format!("amqp://127.0.0.1:{port}/%2f"))).unwrap();
    for _ in 0..3 {
        within_5_s(broker.depth()).await.expect_err("it never speaks");
    }
    until(async || open.load(Ordering::SeqCst), |open| *open <= 1).await;
}

#[test]
fn a_worker_has_room_for_all_queues_that_it_takes_from() {
    let settings = QueueSettings { separate: vec!["rust".into(), "go".into()], ..settings("memory://".into()) };
    let bound =
        |languages: &[&str]| queue::room(&settings, &languages.iter().map(ToString::to_string).collect::<Vec<_>>(), 5);
    // Three priorities of each, with one more of the urgent, and what has fallen.
    assert_eq!((bound(&[]), bound(&["rust"]), bound(&["rust", "go"])), (53, 21, 37));
}
