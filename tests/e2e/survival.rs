//! A worker that dies takes nothing with it: its requests are judged elsewhere, once, and what it left is cleared away.

use std::time::Duration;

use tribunal_shared::queue;
use tribunal_shared::request::ExecutionRequest;
use tribunal_shared::result::{ExecutionStatus, TestStatus};
use tribunal_shared::store::{Event, State};
use tribunal_tests::requests::request;
use tribunal_tests::{Fleet, PATIENCE, Worker, eventually, processes_running};

use futures_util::StreamExt;

/// Runs until it is killed or has slept for `seconds`.
fn sleeping(seconds: u32) -> ExecutionRequest {
    let code = format!("import time; print('up', flush=True); time.sleep({seconds})");
    ExecutionRequest { timeout_ms: Some(60_000), ..request("python", &code, &[("", "up")]) }
}

#[tokio::test]
async fn killed_in_the_middle_of_a_request_its_result_arrives_once_and_its_containers_go() {
    let mut fleet = Fleet::new().await;
    fleet.start_worker();
    let request = sleeping(3);
    let id = fleet.client.submit(request).await.unwrap();
    eventually("its container runs", || !fleet.containers_of(id.as_str()).is_empty());
    let orphan = fleet.containers_of(id.as_str());
    let dead = fleet.tenants();
    assert_eq!(dead.len(), 1);
    fleet.worker(0).kill();
    assert_eq!(fleet.containers_of(id.as_str()), orphan, "nobody is there to remove it");

    // The other worker: it takes the request over, and removes what the dead one left.
    fleet.start_worker();
    let result = fleet.client.wait(&id, Some(PATIENCE)).await.unwrap().expect("a result");
    assert_eq!(result.status, ExecutionStatus::AllPassed, "{result:?}");
    eventually("its containers are gone", || fleet.containers_of(id.as_str()).is_empty());
    eventually("its folder is gone", || !fleet.tenants().contains(&dead[0]));

    let events: Vec<_> = fleet.client.events(&id, None).await.unwrap().map(Result::unwrap).collect().await;
    let count = |wanted: fn(&Event) -> bool| events.iter().filter(|numbered| wanted(&numbered.event)).count();
    assert_eq!(count(|event| matches!(event, Event::Running { .. })), 2, "{events:?}");
    assert_eq!(count(|event| matches!(event, Event::Done { .. })), 1, "{events:?}");
    let depth = queue::connect(&fleet.settings.queue).unwrap().depth().await.unwrap();
    assert_eq!((depth.ready, depth.dead), (0, 0));
}

#[tokio::test]
async fn two_workers_share_a_queue() {
    let mut fleet = Fleet::with("worker.slots = 1\nworker.grace_s = 0\n").await;
    fleet.start_worker();
    fleet.start_worker();
    let ids = [fleet.client.submit(sleeping(50)).await.unwrap(), fleet.client.submit(sleeping(50)).await.unwrap()];
    for id in &ids {
        eventually("both run at the same time", || !fleet.containers_of(id.as_str()).is_empty());
    }
    let worker_of = |id: &str| {
        let container = &fleet.containers_of(id)[0];
        fleet.docker(&["inspect", "--format", r#"{{index .Config.Labels "tribunal.worker"}}"#, container])
    };
    assert_ne!(worker_of(ids[0].as_str()), worker_of(ids[1].as_str()));
}

#[tokio::test]
async fn a_starting_worker_leaves_its_neighbours_containers_alone() {
    let mut fleet = Fleet::new().await;
    fleet.start_worker();
    let id = fleet.client.submit(sleeping(4)).await.unwrap();
    eventually("its container runs", || !fleet.containers_of(id.as_str()).is_empty());
    let running = fleet.containers_of(id.as_str());
    fleet.start_worker();
    assert_eq!(fleet.containers_of(id.as_str()), running);
    let result = fleet.client.wait(&id, Some(PATIENCE)).await.unwrap().expect("a result");
    assert_eq!(result.test_results[0].status, TestStatus::Passed);
}

#[tokio::test]
async fn told_to_stop_a_worker_finishes_what_runs_and_leaves_nothing() {
    let mut fleet = Fleet::new().await;
    fleet.start_worker();
    let id = fleet.client.submit(sleeping(2)).await.unwrap();
    eventually("its container runs", || !fleet.containers_of(id.as_str()).is_empty());
    fleet.worker(0).signal("TERM");
    assert_eq!(fleet.worker(0).wait().code(), Some(0), "{}", fleet.logs());
    let State::Done(result) = fleet.client.poll(&id).await.unwrap() else { panic!("not finished:\n{}", fleet.logs()) };
    assert_eq!(result.status, ExecutionStatus::AllPassed);
    assert_eq!(fleet.containers_of(id.as_str()), Vec::<String>::new());
    assert_eq!(fleet.tenants(), Vec::<String>::new());
}

#[tokio::test]
async fn what_does_not_finish_in_the_grace_period_goes_back_to_the_queue() {
    let mut fleet = Fleet::with("worker.grace_s = 1\n").await;
    fleet.start_worker();
    let id = fleet.client.submit(sleeping(55)).await.unwrap();
    eventually("its container runs", || !fleet.containers_of(id.as_str()).is_empty());
    fleet.worker(0).signal("TERM");
    assert_eq!(fleet.worker(0).wait().code(), Some(0), "{}", fleet.logs());
    assert_eq!(fleet.containers_of(id.as_str()), Vec::<String>::new());
    assert_eq!(fleet.tenants(), Vec::<String>::new());
    let broker = queue::connect(&fleet.settings.queue).unwrap();
    tokio::time::timeout(PATIENCE, async {
        while broker.depth().await.unwrap().ready != 1 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await
    .expect("the request is on the queue again");
}

#[tokio::test]
async fn a_container_that_somebody_else_removes_is_our_failure_and_tried_again() {
    let mut fleet = Fleet::new().await;
    fleet.start_worker();
    let id = fleet.client.submit(sleeping(3)).await.unwrap();
    eventually("its container runs", || !fleet.containers_of(id.as_str()).is_empty());
    fleet.docker(&["rm", "--force", &fleet.containers_of(id.as_str())[0]]);
    let result = fleet.client.wait(&id, Some(PATIENCE)).await.unwrap().expect("a result");
    assert_eq!(result.status, ExecutionStatus::AllPassed, "{result:?}\n{}", fleet.logs());
}

#[tokio::test]
async fn a_request_that_we_fail_every_time_is_given_up_with_the_reason() {
    let ghost = r#"
        worker.max_attempts = 2
        [languages.ghost]
        image = "tribunal-test/no-such-image:1"
        source = "ghost"
        run = ["ghost"]
        version = ["ghost"]
    "#;
    let mut fleet = Fleet::with(ghost).await;
    fleet.start_worker();
    let result = fleet.judge(request("ghost", "boo", &[("1", "1")])).await;
    assert_eq!(result.status, ExecutionStatus::SandboxError);
    assert!(result.summary.starts_with("Gave up after 2 attempts"), "{}", result.summary);
    assert!(result.summary.contains("tribunal-test/no-such-image:1"), "{}", result.summary);
}

/// Stands between a worker and RabbitMQ, and can cut every connection.
struct Wire {
    address: std::net::SocketAddr,
    cut: tokio::sync::broadcast::Sender<()>,
}

impl Wire {
    async fn to(amqp: &str) -> Self {
        let (_, server) = amqp.rsplit_once('@').unwrap();
        let server = server.split('/').next().unwrap().to_owned();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (cut, _) = tokio::sync::broadcast::channel(1);
        let cutter = cut.clone();
        tokio::spawn(async move {
            while let Ok((mut worker, _)) = listener.accept().await {
                let (server, mut cut) = (server.clone(), cutter.subscribe());
                tokio::spawn(async move {
                    let mut server = tokio::net::TcpStream::connect(server).await.unwrap();
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut worker, &mut server) => {}
                        _ = cut.recv() => {}
                    }
                });
            }
        });
        Self { address, cut }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_connections_cost_no_attempts_and_run_nothing_twice() {
    let fleet = Fleet::new().await;
    let wire = Wire::to(&fleet.services.amqp).await;
    let url = format!("amqp://guest:guest@{}/%2f", wire.address);
    // With slots to spare: a worker without does not even look whether there is something to take.
    let settings = [
        ("TRIBUNAL_QUEUE__URL", url.as_str()),
        ("TRIBUNAL_WORKER__MAX_ATTEMPTS", "2"),
        ("TRIBUNAL_WORKER__SLOTS", "8"),
    ];
    let worker = Worker::start(&fleet.settings_file(), &settings);
    let ids = [fleet.client.submit(sleeping(8)).await.unwrap(), fleet.client.submit(sleeping(8)).await.unwrap()];
    for id in &ids {
        eventually("it runs", || !fleet.containers_of(id.as_str()).is_empty());
    }
    let containers = ids.clone().map(|id| fleet.containers_of(id.as_str()));
    for round in 2..5 {
        wire.cut.send(()).unwrap();
        eventually("the worker is connected again", || worker.log().matches("connected to the queue").count() == round);
        assert_eq!(ids.clone().map(|id| fleet.containers_of(id.as_str())), containers, "{}", worker.log());
    }
    for id in &ids {
        let result = fleet.client.wait(id, Some(PATIENCE)).await.unwrap().expect("a result");
        assert_eq!(result.status, ExecutionStatus::AllPassed, "{result:?}\n{}", worker.log());
        let events: Vec<_> = fleet.client.events(id, None).await.unwrap().map(Result::unwrap).collect().await;
        let starts = events.iter().filter(|numbered| matches!(numbered.event, Event::Running { .. })).count();
        assert_eq!(starts, 1, "{events:?}");
    }
    let broker = queue::connect(&fleet.settings.queue).unwrap();
    tokio::time::timeout(PATIENCE, async {
        while broker.depth().await.unwrap().ready > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await
    .expect("what was delivered again is acked");
    assert_eq!(broker.depth().await.unwrap().dead, 0);
}

#[tokio::test]
async fn interrupted_at_any_moment_judging_leaves_nothing() {
    let fleet = Fleet::new().await;
    let folder = fleet.folder.path().join("endless");
    std::fs::create_dir_all(folder.join("tests")).unwrap();
    std::fs::write(folder.join("solution.c"), "int main(void) { for (;;); }").unwrap();
    for test in 0..4 {
        std::fs::write(folder.join(format!("tests/{test}.in")), "").unwrap();
        std::fs::write(folder.join(format!("tests/{test}.out")), "").unwrap();
    }
    for step in 0..24 {
        let id = request("c", "", &[]).request_id.unwrap();
        let mut judge = fleet.cli().args(["judge", "--id", &id]).arg(&folder).spawn().unwrap();
        // The moment itself is what is tested.
        tokio::time::sleep(Duration::from_millis(step * 25)).await;
        let sent = std::process::Command::new("kill").args(["-INT", &judge.id().to_string()]).status();
        assert!(sent.unwrap().success());
        let _ = judge.wait().unwrap();
        assert_eq!(fleet.containers_of(&id), Vec::<String>::new(), "interrupted after {} ms", step * 25);
        assert_eq!(fleet.tenants(), Vec::<String>::new(), "interrupted after {} ms", step * 25);
    }
}

#[tokio::test]
async fn a_container_that_somebody_stops_is_our_failure_and_not_the_programs() {
    let fleet = Fleet::started().await;
    for signal in ["TERM", "KILL"] {
        // A number of its own, to be found by.
        let sleep = format!("sleep 2.{:09}", std::process::id());
        let id = fleet.client.submit(request("bash", &format!("{sleep}; echo 1"), &[("", "1")])).await.unwrap();
        eventually("its program runs", || processes_running(&sleep) > 0);
        let containers = fleet.containers_of(id.as_str());
        fleet.docker(&["kill", "--signal", signal, &containers[0]]);
        let result = fleet.client.wait(&id, Some(PATIENCE)).await.unwrap().expect("a result");
        assert_eq!(result.status, ExecutionStatus::AllPassed, "{signal}: {result:?}\n{}", fleet.logs());
        assert!(fleet.logs().contains("our failure"), "{}", fleet.logs());
    }
}
