//! `submit`, `result` and `watch` on real services, with the test in the worker's place.

use std::process::{Command, Stdio};
use std::sync::Arc;

use tempfile::{TempDir, tempdir};
use tribunal_shared::config::Settings;
use tribunal_shared::queue::{self, Broker};
use tribunal_shared::request::{ExecutionRequest, RequestId};
use tribunal_shared::result::{ExecutionResult, TestResult, TestStatus};
use tribunal_shared::store::{self, Event, ResultStore};

use crate::common::{example, run, service, tribunal};

/// A queue of one test's own, and the store.
struct Fleet {
    folder: TempDir,
    settings: Settings,
    broker: Arc<dyn Broker>,
    store: Arc<dyn ResultStore>,
}

impl Fleet {
    async fn new(queue: &str) -> Self {
        let mut settings = Settings::defaults();
        settings.queue.url = service("TEST_AMQP_URL");
        settings.queue.name = format!("tribunal-cli-{queue}");
        settings.store.url = service("TEST_REDIS_URL");
        let broker = queue::connect(&settings.queue).unwrap();
        let store = store::connect(&settings.store).await.unwrap();
        Self { folder: tempdir().unwrap(), settings, broker, store }
    }

    fn tribunal(&self, arguments: &[&str]) -> Command {
        let mut command = tribunal(self.folder.path());
        command.env("TRIBUNAL_QUEUE__NAME", &self.settings.queue.name);
        command.args(["--queue-url", &self.settings.queue.url, "--store-url", &self.settings.store.url]);
        command.args(arguments);
        command
    }

    /// Takes the next request off the queue, as a worker does.
    async fn take(&self) -> ExecutionRequest {
        let delivery = self.broker.consume(1).await.unwrap().next().await.unwrap();
        let request = ExecutionRequest::from_json(&delivery.body).unwrap();
        delivery.ack().await.unwrap();
        request
    }
}

fn two_sum() -> String {
    example("two_sum").to_str().unwrap().to_owned()
}

fn passed(id: &RequestId) -> ExecutionResult {
    let test = TestResult {
        test_id: "test_1".into(),
        status: TestStatus::Passed,
        actual_output: "0 1\n".into(),
        expected_output: "0 1".into(),
        execution_time_ms: 7,
        memory_used_kb: 2048,
        error_message: None,
        cpu_time_ms: Some(5),
        exit_code: Some(0),
        signal: None,
        stderr: None,
    };
    ExecutionResult::from_tests(id, vec![test], 9)
}

#[tokio::test]
async fn a_request_goes_in_and_its_result_comes_out() {
    let fleet = Fleet::new("road").await;
    let id = RequestId::generate();
    let ran = run(&mut fleet.tribunal(&["submit", &two_sum(), "--id", id.as_str()]));
    assert_eq!((ran.code, ran.stdout), (0, format!("{id}\n")), "{}", ran.stderr);
    let ran = run(&mut fleet.tribunal(&["result", id.as_str()]));
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "queued\n"), "{}", ran.stderr);
    let ran = run(&mut fleet.tribunal(&["result", id.as_str(), "--json"]));
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (0, "", "queued\n"));
    let ran = run(&mut fleet.tribunal(&["result", id.as_str(), "--wait=1"]));
    assert_eq!(ran.code, 3);
    assert!(ran.stderr.contains("no result within 1 s"), "{}", ran.stderr);

    let mut children = Vec::new();
    for arguments in [&["watch", id.as_str()][..], &["result", id.as_str(), "--wait"]] {
        let mut command = fleet.tribunal(arguments);
        children.push(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    }
    assert_eq!(fleet.take().await.request_id.as_deref(), Some(id.as_str()));
    let test = Event::Test {
        index: 0,
        total: 1,
        test_id: "test_1\x1b[2J".into(),
        status: TestStatus::Passed,
        execution_time_ms: 7,
        memory_used_kb: 2048,
    };
    for event in [Event::Running { worker: "one".into(), attempt: 1 }, Event::Compiled { time_ms: 3 }, test] {
        fleet.store.record(&id, &event).await.unwrap();
    }
    assert!(fleet.store.put(&id, &passed(&id)).await.unwrap());

    let mut outputs = children.into_iter().map(|child| child.wait_with_output().unwrap());
    let (watched, waited) = (outputs.next().unwrap(), outputs.next().unwrap());
    assert_eq!(
        String::from_utf8_lossy(&watched.stdout),
        "queued\nrunning on one\ncompiled in 3 ms\n1/1 test_1\\u{1b}[2J passed 7 ms 2.0 MB\nAll 1 test cases passed\n"
    );
    assert_eq!((watched.status.code(), waited.status.code()), (Some(0), Some(0)));
    assert!(String::from_utf8_lossy(&waited.stdout).ends_with("\nAll 1 test cases passed\n"));

    let ran = run(&mut fleet.tribunal(&["result", id.as_str(), "--json"]));
    let result: ExecutionResult = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((ran.code, result), (0, passed(&id)));
}

#[tokio::test]
async fn submitting_again_is_safe_and_another_body_is_a_conflict() {
    let fleet = Fleet::new("again").await;
    let id = RequestId::generate();
    for _ in 0..2 {
        let ran = run(&mut fleet.tribunal(&["submit", &two_sum(), "--id", id.as_str()]));
        assert_eq!((ran.code, ran.stdout), (0, format!("{id}\n")), "{}", ran.stderr);
    }
    let ran = run(&mut fleet.tribunal(&["submit", &two_sum(), "--id", id.as_str(), "--timeout-ms", "1000"]));
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""));
    assert!(ran.stderr.contains("belongs to another request"), "{}", ran.stderr);
    fleet.take().await;
    assert_eq!(fleet.broker.depth().await.unwrap().ready, 0, "it was enqueued once");
}

#[tokio::test]
async fn waiting_after_submitting_prints_the_result() {
    let fleet = Fleet::new("wait").await;
    let mut command = fleet.tribunal(&["submit", &two_sum(), "--wait", "--json"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let id: RequestId = fleet.take().await.request_id.unwrap().parse().unwrap();
    fleet.store.put(&id, &ExecutionResult::gave_up(&id, 3, "no daemon")).await.unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3), "our failure is no verdict");
    assert_eq!(String::from_utf8_lossy(&output.stderr), format!("submitted as {id}\n"));
    let result: ExecutionResult = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result.request_id, id.as_str());
}

#[tokio::test]
async fn an_id_nobody_submitted_is_unknown() {
    let fleet = Fleet::new("unknown").await;
    let id = RequestId::generate();
    for arguments in [
        &["result", id.as_str()][..],
        &["result", id.as_str(), "--wait"],
        &["result", id.as_str(), "--wait=1"],
        &["watch", id.as_str()],
    ] {
        let ran = run(&mut fleet.tribunal(arguments));
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{arguments:?}");
        assert!(ran.stderr.starts_with(&format!("tribunal: {id} is unknown")), "{}", ran.stderr);
    }
}
