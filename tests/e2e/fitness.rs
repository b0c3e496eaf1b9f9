//! What one worker has no toolchain for, another judges; what nobody has one for is given up, and says so.

use futures_util::{StreamExt, stream};
use tribunal_shared::result::ExecutionStatus;
use tribunal_tests::daemon::free_port;
use tribunal_tests::requests::{request, sleeping};
use tribunal_tests::{Fleet, Ground, Worker, eventually};

/// Its images were never imported.
fn without_roots(fleet: &Fleet, more: &[(&str, &str)]) -> Worker {
    let roots = fleet.folder.path().join("no-roots");
    let roots = roots.to_str().expect("a path of ours");
    Worker::start(&fleet.settings_file(), &[&[("TRIBUNAL_SANDBOX__NATIVE__ROOTS", roots)], more].concat())
}

#[tokio::test]
async fn a_worker_that_lacks_a_language_leaves_its_requests_to_one_that_has_it() {
    let mut fleet = Fleet::on(Ground::Host, "worker.slots = 1\n").await;
    let lacking =
        without_roots(&fleet, &[("TRIBUNAL_LANGUAGES__BASH__ROOT", "image"), ("TRIBUNAL_WORKER__SLOTS", "4")]);
    lacking.await_line("all languages were looked at");
    lacking.await_line("connected to the queue");
    fleet.start_worker();
    let judged = stream::iter(0..6).map(|_| fleet.judge(sleeping(0.2))).buffer_unordered(6);
    for result in judged.collect::<Vec<_>>().await {
        assert_eq!(result.status, ExecutionStatus::AllPassed, "{result:?}\n{}", lacking.log());
    }
    assert!(lacking.log().contains("to be judged elsewhere"), "it had none of them:\n{}", lacking.log());
    assert_eq!(fleet.client.depth().await.unwrap().dead, 0);
    let shown = fleet.cli().arg("fleet").output().expect("tribunal runs");
    assert!(String::from_utf8_lossy(&shown.stdout).contains("all but bash"), "{shown:?}");
}

#[tokio::test]
async fn a_worker_that_lacks_every_language_takes_nothing_and_says_so() {
    let (mut fleet, port) = (Fleet::on(Ground::Host, "worker.slots = 2\n").await, free_port());
    let listen = format!("127.0.0.1:{port}");
    let environment = [("TRIBUNAL_SANDBOX__NATIVE__ROOT", "image"), ("TRIBUNAL_WORKER__LISTEN", listen.as_str())];
    let lacking = without_roots(&fleet, &environment);
    lacking.await_line("connected to the queue");
    eventually("it is not ready, and says why", || {
        let (status, problems) = Fleet::ask(port, "/ready");
        status == 503 && problems.contains("sandbox: it has no toolchain of any language")
    });
    fleet.start_worker();
    for _ in 0..4 {
        let result = fleet.judge(request("bash", "echo 1", &[("", "1")])).await;
        assert_eq!(result.status, ExecutionStatus::AllPassed, "{result:?}\n{}", lacking.log());
    }
    assert!(!lacking.log().contains("to be judged elsewhere"), "{}", lacking.log());
}

#[tokio::test]
async fn what_nobody_can_judge_is_given_up() {
    let fleet = Fleet::on(Ground::Host, "worker.max_attempts = 2\n").await;
    let lacking = without_roots(&fleet, &[("TRIBUNAL_LANGUAGES__BASH__ROOT", "image")]);
    let result = fleet.judge(request("bash", "echo 1", &[("", "1")])).await;
    assert_eq!(result.status, ExecutionStatus::SandboxError, "{result:?}\n{}", lacking.log());
    assert_eq!(result.attempts.len(), 2, "{result:?}");
    assert!(result.attempts.iter().all(|attempt| attempt.end.contains("rootfs import")), "{result:?}");
}
