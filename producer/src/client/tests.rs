use async_trait::async_trait;
use tribunal_shared::queue::memory::MemoryBroker;
use tribunal_shared::queue::{Consumer, Delivery};
use tribunal_shared::request::TestCase;
use tribunal_shared::store::memory::MemoryStore;
use tribunal_shared::store::{Lease, Take};

use super::*;

fn request(id: Option<&str>) -> ExecutionRequest {
    ExecutionRequest {
        request_id: id.map(Into::into),
        code: "print(1)".into(),
        language: "python".into(),
        test_cases: vec![TestCase { expected_output: "1".into(), ..TestCase::default() }],
        timeout_ms: None,
        total_timeout_ms: None,
        memory_limit_mb: None,
        cpu_limit: None,
        priority: None,
        metadata: serde_json::Map::new(),
    }
}

fn result(id: &RequestId) -> ExecutionResult {
    ExecutionResult::invalid(id, "any result will do")
}

/// A client with its queue and store at hand.
struct Bench {
    client: Client,
    broker: Arc<dyn Broker>,
    store: Arc<dyn ResultStore>,
}

fn bench_with(broker: Arc<dyn Broker>) -> Bench {
    let settings = Settings::defaults();
    let store: Arc<dyn ResultStore> = Arc::new(MemoryStore::new(&settings.store));
    Bench { client: Client::new(Arc::clone(&broker), Arc::clone(&store), &settings), broker, store }
}

fn bench() -> Bench {
    bench_with(Arc::new(MemoryBroker::new(&Settings::defaults().queue)))
}

/// A broker that takes nothing, and has nothing to give.
struct Refusing;

fn refused<T>() -> Result<T, QueueError> {
    Err(QueueError::NotAccepted { address: "memory://".into(), reason: "the queue is full".into() })
}

#[async_trait]
impl Broker for Refusing {
    async fn publish_all(&self, messages: Vec<Message>) -> Vec<Result<(), QueueError>> {
        messages.iter().map(|_| refused()).collect()
    }

    async fn consume(&self, _: &[String], _: u16) -> Result<Box<dyn Consumer>, QueueError> {
        refused()
    }

    async fn depth(&self) -> Result<Depth, QueueError> {
        Ok(Depth::default())
    }

    async fn bury(&self, _: &DeadLetter) -> Result<(), QueueError> {
        refused()
    }

    async fn dead_letters(&self, _: usize) -> Result<Vec<DeadLetter>, QueueError> {
        Ok(Vec::new())
    }

    async fn exhume(&self, _: &str, _: Fate) -> Result<usize, QueueError> {
        refused()
    }

    async fn park(&self, _: &Delivery) -> Result<(), QueueError> {
        refused()
    }

    async fn unpark(&self) -> Result<usize, QueueError> {
        refused()
    }
}

#[tokio::test]
async fn a_submitted_request_is_on_the_queue_and_known() {
    let Bench { client, broker, .. } = bench();
    let id = client.submit(request(None)).await.unwrap();
    assert_eq!(client.poll(&id).await.unwrap(), State::Queued);
    let delivery = broker.consume(&[], 1).await.unwrap().next().await.unwrap();
    let sent = ExecutionRequest::from_json(&delivery.body).unwrap();
    assert_eq!(sent.request_id.as_deref(), Some(id.as_str()), "the id that was made up travels in the body");
}

#[tokio::test]
async fn the_same_submission_twice_is_one_request() {
    let Bench { client, broker, store } = bench();
    let id = client.submit(request(Some("a"))).await.unwrap();
    assert_eq!(client.submit(request(Some("a"))).await.unwrap(), id);
    assert_eq!(broker.depth().await.unwrap().ready, 1);

    store.put(&id, None, &result(&id)).await.unwrap();
    assert_eq!(client.submit(request(Some("a"))).await.unwrap(), id);
    assert_eq!(broker.depth().await.unwrap().ready, 1, "nor is it judged again once it has its result");
}

#[tokio::test]
async fn an_id_is_not_lent_to_another_body() {
    let Bench { client, broker, .. } = bench();
    client.submit(request(Some("a"))).await.unwrap();
    let other = ExecutionRequest { code: "print(2)".into(), ..request(Some("a")) };
    let error = client.submit(other).await.unwrap_err();
    assert!(matches!(&error, SubmitError::Conflict(id) if id.as_str() == "a"), "{error}");
    assert_eq!(broker.depth().await.unwrap().ready, 1);
}

fn digest(request: &ExecutionRequest) -> Digest {
    Digest::of(&serde_json::to_vec(request).unwrap())
}

#[tokio::test]
async fn a_request_that_the_queue_refuses_leaves_its_id_free() {
    let Bench { client, store, .. } = bench_with(Arc::new(Refusing));
    let error = client.submit(request(Some("a"))).await.unwrap_err();
    assert!(matches!(error, SubmitError::Queue(QueueError::NotAccepted { .. })), "{error}");
    let id = "a".parse().unwrap();
    assert_eq!(client.poll(&id).await.unwrap(), State::Unknown);
    let other = ExecutionRequest { code: "print(2)".into(), ..request(Some("a")) };
    assert_eq!(store.claim(&id, &digest(&other)).await.unwrap(), Claim::New);
}

#[tokio::test]
async fn what_was_never_confirmed_is_published_again() {
    let Bench { client, broker, store } = bench();
    store.claim(&"a".parse().unwrap(), &digest(&request(Some("a")))).await.unwrap();
    client.submit(request(Some("a"))).await.unwrap();
    assert_eq!(broker.depth().await.unwrap().ready, 1);
}

#[tokio::test]
async fn a_bad_request_reaches_neither_store_nor_queue() {
    let Bench { client, broker, .. } = bench();
    let bad = ExecutionRequest { code: " ".into(), timeout_ms: Some(-1), ..request(Some("a")) };
    let Err(SubmitError::Rejected(Rejection::Invalid(problems))) = client.submit(bad).await else { panic!("accepted") };
    assert_eq!(problems.iter().map(|problem| problem.field.as_str()).collect::<Vec<_>>(), ["code", "timeout_ms"]);
    assert_eq!(broker.depth().await.unwrap().ready, 0);
    assert_eq!(client.poll(&"a".parse().unwrap()).await.unwrap(), State::Unknown);
}

#[tokio::test]
async fn a_request_longer_than_a_message_is_refused() {
    let mut settings = Settings::defaults();
    settings.limits.max_request_bytes = 100;
    let store = Arc::new(MemoryStore::new(&settings.store));
    let client = Client::new(Arc::new(MemoryBroker::new(&settings.queue)), store, &settings);
    let error = client.submit(request(None)).await.unwrap_err();
    assert!(matches!(error, SubmitError::TooLarge { limit: 100, .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn waiting_ends_when_the_store_has_the_result() {
    let Bench { client, store, .. } = bench();
    let id = client.submit(request(None)).await.unwrap();
    let (waiter, waited_for) = (client.clone(), id.clone());
    let waiting = tokio::spawn(async move { waiter.wait(&waited_for, Some(Duration::from_secs(60))).await });
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(!waiting.is_finished());

    let began = tokio::time::Instant::now();
    store.put(&id, None, &result(&id)).await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap(), Some(result(&id)));
    assert!(began.elapsed() < Duration::from_millis(10), "it is woken, it does not look from time to time");
    assert_eq!(client.wait(&id, None).await.unwrap(), Some(result(&id)), "and later it is there at once");
}

#[tokio::test(start_paused = true)]
async fn patience_runs_out() {
    let Bench { client, .. } = bench();
    let id = client.submit(request(None)).await.unwrap();
    let began = tokio::time::Instant::now();
    assert_eq!(client.wait(&id, Some(Duration::from_secs(3))).await.unwrap(), None);
    assert_eq!(began.elapsed().as_secs(), 3);
}

#[tokio::test]
async fn a_follower_sees_everything_on_the_way() {
    let Bench { client, store, .. } = bench();
    let id = client.submit(request(None)).await.unwrap();
    let digest = digest(&request(Some(id.as_str())));
    let key = id.clone();
    tokio::spawn(async move {
        let taken = store.take(&key, &digest, &Lease::new("w"), 3).await.unwrap();
        assert_eq!(taken, Take::Begun { attempt: 1 });
        store.put(&key, None, &result(&key)).await.unwrap();
    });
    let mut seen = Vec::new();
    let followed = client.follow(&id, None, |event| seen.push(event.clone())).await.unwrap();
    assert_eq!(followed, Some(result(&id)));
    assert_eq!(seen[..2], [Event::Queued, Event::Running { worker: "w".into(), attempt: 1 }]);
    assert!(matches!(seen[2..], [Event::Done { .. }]), "{seen:?}");
}

#[tokio::test]
async fn what_waits_or_runs_can_be_cancelled_once() {
    let Bench { client, store, .. } = bench();
    let id = client.submit(request(Some("a"))).await.unwrap();
    assert_eq!(client.cancel(&id).await.unwrap(), Cancellation::Cancelled);
    assert_eq!(client.wait(&id, None).await.unwrap().unwrap().status, ExecutionStatus::Cancelled);
    assert_eq!(client.cancel(&id).await.unwrap(), Cancellation::Already);

    let id = client.submit(request(Some("b"))).await.unwrap();
    store.take(&id, &digest(&request(Some("b"))), &Lease::new("w"), 3).await.unwrap();
    assert_eq!(client.cancel(&id).await.unwrap(), Cancellation::Cancelled);
}

#[tokio::test]
async fn a_result_is_not_cancelled_and_an_unknown_id_neither() {
    let Bench { client, store, .. } = bench();
    let id = client.submit(request(Some("a"))).await.unwrap();
    store.put(&id, None, &result(&id)).await.unwrap();
    assert_eq!(client.cancel(&id).await.unwrap(), Cancellation::TooLate(Box::new(result(&id))));
    assert_eq!(client.cancel(&"never".parse().unwrap()).await.unwrap(), Cancellation::Unknown);
}

fn dead(id: &str) -> DeadLetter {
    DeadLetter {
        id: Some(id.into()),
        body: serde_json::to_vec(&request(Some(id))).unwrap(),
        kind: None,
        queue: "tribunal.requests".into(),
        reason: "no daemon".into(),
        attempts: Vec::new(),
        died_at_ms: 1,
        traceparent: None,
    }
}

#[tokio::test]
async fn what_is_brought_back_is_queued_again_without_its_old_result() {
    let Bench { client, broker, store } = bench();
    let id = "a".parse().unwrap();
    broker.bury(&dead("a")).await.unwrap();
    store.put(&id, None, &ExecutionResult::gave_up(&id, Vec::new(), "no daemon")).await.unwrap();
    assert_eq!(client.requeue(&["a".into()]).await.unwrap(), [Requeued::Done]);
    assert_eq!(client.poll(&id).await.unwrap(), State::Queued);
    let depth = client.depth().await.unwrap();
    assert_eq!((depth.ready, depth.dead), (1, 0));
    assert_eq!(client.submit(request(Some("a"))).await.unwrap(), id, "it is the same request still");
    assert_eq!(client.depth().await.unwrap().ready, 1);
    assert_eq!(client.requeue(&["a".into()]).await.unwrap(), [Requeued::NotThere]);
}

#[tokio::test]
async fn what_was_judged_after_all_is_not_judged_anew() {
    let Bench { client, broker, store } = bench();
    let id = "a".parse().unwrap();
    broker.bury(&dead("a")).await.unwrap();
    store.put(&id, None, &ExecutionResult::cancelled(&id)).await.unwrap();
    let judged = Requeued::HasResult(Box::new(ExecutionResult::cancelled(&id)));
    assert_eq!(client.requeue(&["b".into(), "a".into()]).await.unwrap(), [Requeued::NotThere, judged]);
    assert_eq!(client.drop_dead(&["b".into(), "a".into()]).await.unwrap(), [false, true]);
    assert_eq!(client.drop_dead(&["a".into()]).await.unwrap(), [false]);
}

#[tokio::test]
async fn a_letter_whose_id_is_anothers_takes_nothing_from_it() {
    let Bench { client, broker, store } = bench();
    let id = client.submit(request(Some("a"))).await.unwrap();
    let foreign = DeadLetter { body: b"{}".to_vec(), ..dead("a") };
    broker.bury(&foreign).await.unwrap();
    assert_eq!(client.requeue(&["a".into()]).await.unwrap(), [Requeued::Conflict]);
    assert_eq!(client.poll(&id).await.unwrap(), State::Queued);
    let depth = client.depth().await.unwrap();
    assert_eq!((depth.ready, depth.dead), (1, 1));
    let taken = store.take(&id, &digest(&request(Some("a"))), &Lease::new("w"), 3).await.unwrap();
    assert_eq!(taken, Take::Begun { attempt: 1 });
}
