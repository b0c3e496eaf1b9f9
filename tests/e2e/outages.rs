//! A dependency that is away, full or hung: clear words for those who ask, and nothing is lost.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tribunal_shared::request::RequestId;
use tribunal_shared::result::ExecutionStatus;
use tribunal_shared::store::Event;
use tribunal_tests::daemon::free_port;
use tribunal_tests::rabbit::Node;
use tribunal_tests::redis::Redis;
use tribunal_tests::requests::{request, sleeping};
use tribunal_tests::{Fleet, Ground, PATIENCE, Services, eventually};

/// A fleet on these services, with a worker that listens.
async fn listening(services: Services, ground: Ground) -> (Fleet, u16) {
    let port = free_port();
    let mut fleet = Fleet::served_by(services, ground, &format!("worker.listen = \"127.0.0.1:{port}\"\n")).await;
    fleet.start_worker();
    (fleet, port)
}

fn becomes_unready(port: u16, part: &str) {
    eventually(&format!("not ready because of the {part}"), || {
        let (status, text) = Fleet::ask(port, "/ready");
        status == 503 && text.contains(part)
    });
    assert_eq!(Fleet::ask(port, "/live").0, 200, "restarting it would help nobody");
}

fn becomes_ready(port: u16) {
    eventually("ready again", || Fleet::ask(port, "/ready").0 == 200);
}

async fn submitted_and_running(fleet: &Fleet, seconds: f64) -> RequestId {
    let id = fleet.client.submit(sleeping(seconds)).await.unwrap();
    let mut events = fleet.client.events(&id, None).await.unwrap();
    while let Some(numbered) = events.next().await {
        if matches!(numbered.unwrap().event, Event::Running { .. }) {
            return id;
        }
    }
    panic!("it never ran:\n{}", fleet.logs());
}

async fn judged_in_one_run(fleet: &Fleet, id: &RequestId) {
    let result = fleet.client.wait(id, Some(PATIENCE)).await.unwrap();
    let result = result.unwrap_or_else(|| panic!("no result:\n{}", fleet.logs()));
    assert_eq!(result.status, ExecutionStatus::AllPassed, "{result:?}");
    let events: Vec<_> =
        fleet.client.events(id, None).await.unwrap().map(|numbered| numbered.unwrap().event).collect().await;
    let count = |wanted: fn(&Event) -> bool| events.iter().filter(|event| wanted(event)).count();
    assert_eq!(count(|event| matches!(event, Event::Running { .. })), 1, "{events:?}");
    assert_eq!(count(|event| matches!(event, Event::Done { .. })), 1, "{events:?}");
}

#[tokio::test]
async fn a_result_waits_for_a_redis_that_is_away_and_no_new_work_is_taken() {
    let mut redis = Redis::start();
    let services = Services { redis: redis.url(), ..Services::from_environment() };
    let (fleet, port) = listening(services, Ground::Host).await;
    let id = submitted_and_running(&fleet, 1.0).await;
    redis.kill();
    let refused = fleet.client.submit(sleeping(0.0)).await.unwrap_err().to_string();
    assert!(refused.contains("cannot reach Redis"), "{refused}");
    becomes_unready(port, "store");
    eventually("the result is kept", || fleet.logs().contains("storing the result"));
    redis.start_again();
    judged_in_one_run(&fleet, &id).await;
    becomes_ready(port);

    for (set, words) in [(Redis::set_read_only as fn(&Redis, bool), "read only"), (Redis::set_out_of_memory, "memory")]
    {
        let id = submitted_and_running(&fleet, 0.5).await;
        set(&redis, true);
        let refused = fleet.client.submit(sleeping(0.0)).await.unwrap_err().to_string();
        assert!(refused.contains(words), "{refused}");
        becomes_unready(port, "store");
        set(&redis, false);
        judged_in_one_run(&fleet, &id).await;
    }
}

#[tokio::test]
async fn a_broker_that_goes_away_or_has_no_room_loses_nothing_and_says_so() {
    let mut broker = Node::start();
    let services = Services { amqp: broker.url(), ..Services::from_environment() };
    let (fleet, port) = listening(services, Ground::Host).await;

    // Full: those who publish hear of it at once, those who ack are heard.
    let id = submitted_and_running(&fleet, 1.0).await;
    broker.set_disk_alarm(true);
    for _ in 0..2 {
        let refused = fleet.client.submit(sleeping(0.0)).await.unwrap_err().to_string();
        assert!(refused.contains("later"), "{refused}");
    }
    let many = fleet.client.submit_batch((0..300).map(|_| sleeping(0.0))).collect::<Vec<_>>();
    let many = tokio::time::timeout(Duration::from_secs(10), many).await.expect("nobody waits for the end of an alarm");
    for outcome in many {
        let refused = outcome.unwrap_err().to_string();
        assert!(refused.contains("later"), "{refused}");
    }
    judged_in_one_run(&fleet, &id).await;
    eventually("it is acked", || broker.queues().iter().all(|queue| queue.unacked == 0));
    broker.set_disk_alarm(false);
    tokio::time::timeout(PATIENCE, async { while fleet.client.submit(sleeping(0.0)).await.is_err() {} }).await.unwrap();

    // Away: what runs is finished and stored, and not run again for the ack that never came.
    let id = submitted_and_running(&fleet, 1.0).await;
    broker.kill();
    becomes_unready(port, "queue");
    judged_in_one_run(&fleet, &id).await;
    let refused = fleet.client.submit(sleeping(0.0)).await.unwrap_err().to_string();
    assert!(refused.contains("RabbitMQ"), "{refused}");
    broker.start_again();
    becomes_ready(port);
    eventually("it is acked at last", || fleet.logs().contains("judged already"));
    judged_in_one_run(&fleet, &id).await;
    assert_eq!(fleet.judge(sleeping(0.0)).await.status, ExecutionStatus::AllPassed);
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Passage {
    Open,
    /// As if the daemon hung.
    Shut,
    /// As if it had died.
    Cut,
}

/// Stands before a Docker daemon.
struct Gate(watch::Sender<Passage>);

impl Gate {
    fn before(daemon: &str, path: &Path) -> Self {
        let (gate, passage) = watch::channel(Passage::Open);
        let listener = UnixListener::bind(path).expect("a socket in a folder of ours");
        let daemon: Arc<str> = daemon.trim_start_matches("unix://").into();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = UnixStream::connect(&*daemon).await else { continue };
                let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
                tokio::spawn(carry(from_client, to_server, passage.clone()));
                tokio::spawn(carry(from_server, to_client, passage.clone()));
            }
        });
        Self(gate)
    }

    fn set(&self, passage: Passage) {
        self.0.send_replace(passage);
    }
}

async fn carry(from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin, mut passage: watch::Receiver<Passage>) {
    let mut cut = passage.clone();
    let carried = async {
        let (mut from, mut bytes) = (from, [0; 16 * 1024]);
        while let Ok(length @ 1..) = from.read(&mut bytes).await {
            let opened = passage.wait_for(|passage| *passage == Passage::Open).await.is_ok();
            if !opened || to.write_all(&bytes[..length]).await.is_err() {
                return;
            }
        }
        let _ = to.shutdown().await;
    };
    tokio::select! { () = carried => {}, _ = cut.wait_for(|passage| *passage == Passage::Cut) => {} }
}

/// A fleet on a Docker daemon behind a gate.
async fn gated(folder: &Path) -> (Fleet, u16, Gate) {
    let services = Services::from_environment();
    let path = folder.join("docker.sock");
    let gate = Gate::before(&services.docker, &path);
    let services = Services { docker: format!("unix://{}", path.display()), ..services };
    let (fleet, port) = listening(services, Ground::Docker).await;
    (fleet, port, gate)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_docker_daemon_that_hangs_makes_the_worker_unready_until_it_answers_again() {
    let folder = tempfile::tempdir().unwrap();
    let (fleet, port, gate) = gated(folder.path()).await;
    gate.set(Passage::Shut);
    tokio::task::block_in_place(|| becomes_unready(port, "sandbox"));
    let id = fleet.client.submit(request("bash", "echo 1", &[("", "1")])).await.unwrap();
    let waited = fleet.client.wait(&id, Some(Duration::from_secs(1))).await.unwrap();
    assert_eq!(waited, None, "nothing is judged without a daemon");
    gate.set(Passage::Open);
    tokio::task::block_in_place(|| becomes_ready(port));
    let result = fleet.client.wait(&id, Some(PATIENCE)).await.unwrap().expect("a result");
    assert_eq!(result.status, ExecutionStatus::AllPassed, "{result:?}\n{}", fleet.logs());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_ran_when_the_docker_daemon_went_away_is_judged_and_removed_when_it_is_back() {
    let folder = tempfile::tempdir().unwrap();
    let (fleet, port, gate) = gated(folder.path()).await;
    let id = fleet.client.submit(sleeping(20.0)).await.unwrap();
    tokio::task::block_in_place(|| eventually("its container runs", || !fleet.containers_of(id.as_str()).is_empty()));
    let orphan = tokio::task::block_in_place(|| fleet.containers_of(id.as_str()));
    gate.set(Passage::Cut);
    tokio::task::block_in_place(|| becomes_unready(port, "sandbox"));
    gate.set(Passage::Open);
    tokio::task::block_in_place(|| {
        eventually("the old one is gone", || !fleet.containers_of(id.as_str()).contains(&orphan[0]));
    });
    let result = fleet.client.wait(&id, Some(PATIENCE)).await.unwrap().expect("a result");
    assert_eq!(result.status, ExecutionStatus::AllPassed, "{result:?}\n{}", fleet.logs());
    assert_eq!(result.attempts, [], "{result:?}");
}
