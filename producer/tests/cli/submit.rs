//! `submit`, `result` and `watch` on real services, with the test in the worker's place.

use std::io::{BufRead as _, BufReader, Read};
use std::process::{Command, Stdio};

use tribunal_shared::request::RequestId;
use tribunal_shared::result::{ExecutionResult, TestResult, TestStatus};
use tribunal_shared::store::{Event, Lease};

use crate::common::{Ran, run};
use crate::services::{Fleet, two_sum};

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

/// What is printed in place of a result: whose, and what is known.
fn state(ran: &Ran) -> (String, String) {
    let json: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let text = |key: &str| json[key].as_str().unwrap().to_owned();
    (text("request_id"), text("state"))
}

#[tokio::test]
async fn a_request_goes_in_and_its_result_comes_out() {
    let fleet = Fleet::new().await;
    let id = RequestId::generate();
    let ran = run(&mut fleet.tribunal(&["submit", &two_sum(), "--id", id.as_str()]));
    assert_eq!((ran.code, ran.stdout), (0, format!("{id}\n")), "{}", ran.stderr);
    let ran = run(&mut fleet.tribunal(&["result", id.as_str()]));
    assert_eq!((ran.code, ran.stdout.as_str()), (4, "queued\n"), "{}", ran.stderr);
    let ran = run(&mut fleet.tribunal(&["result", id.as_str(), "--json"]));
    assert_eq!((ran.code, state(&ran)), (4, (id.to_string(), "queued".into())));
    assert_eq!(ran.stderr, "");
    let ran = run(&mut fleet.tribunal(&["result", id.as_str(), "--wait=1"]));
    assert_eq!((ran.code, ran.stdout.as_str()), (4, ""));
    assert!(ran.stderr.contains("no result within 1 s"), "{}", ran.stderr);
    let request = fleet.take().await;
    assert_eq!(request.request_id.as_deref(), Some(id.as_str()));
    fleet.begin(&request, &Lease::new("lost"), 1).await;
    let ran = run(&mut fleet.tribunal(&["result", id.as_str(), "--wait=1", "--json"]));
    assert_eq!((ran.code, state(&ran)), (4, (id.to_string(), "running".into())));

    let mut children = Vec::new();
    for arguments in [&["watch", id.as_str()][..], &["result", id.as_str(), "--wait"]] {
        let mut command = fleet.tribunal(arguments);
        children.push(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    }
    let lease = Lease::new("one");
    fleet.begin(&request, &lease, 2).await;
    let test = Event::Test {
        index: 0,
        total: 1,
        test_id: "test_1\x1b[2J".into(),
        status: TestStatus::Passed,
        execution_time_ms: 7,
        memory_used_kb: 2048,
    };
    for event in [Event::Compiled { time_ms: 3 }, test] {
        fleet.store.record(&id, &lease, &event).await.unwrap();
    }
    assert!(fleet.store.put(&id, None, &passed(&id)).await.unwrap());

    let mut outputs = children.into_iter().map(|child| child.wait_with_output().unwrap());
    let (watched, waited) = (outputs.next().unwrap(), outputs.next().unwrap());
    assert_eq!(
        String::from_utf8_lossy(&watched.stdout),
        "queued\nrunning on lost\nrunning again on one, from the beginning (attempt 2)\ncompiled in 3 ms\n1/1 test_1\\u{1b}[2J passed 7 ms 2.0 MB\nAll 1 test cases passed\n"
    );
    assert_eq!((watched.status.code(), waited.status.code()), (Some(0), Some(0)));
    assert!(String::from_utf8_lossy(&waited.stdout).ends_with("\nAll 1 test cases passed\n"));

    let ran = run(&mut fleet.tribunal(&["result", id.as_str(), "--json"]));
    let result: ExecutionResult = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((ran.code, result), (0, passed(&id)));
}

#[tokio::test]
async fn submitting_again_is_safe_and_another_body_is_a_conflict() {
    let fleet = Fleet::new().await;
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
    let fleet = Fleet::new().await;
    let mut command = fleet.tribunal(&["submit", &two_sum(), "--wait", "--json"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let id: RequestId = fleet.take().await.request_id.unwrap().parse().unwrap();
    fleet.store.put(&id, None, &ExecutionResult::gave_up(&id, Vec::new(), "no daemon")).await.unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3), "our failure is no verdict");
    assert_eq!(String::from_utf8_lossy(&output.stderr), format!("submitted as {id}\n"));
    let result: ExecutionResult = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result.request_id, id.as_str());
}

#[tokio::test]
async fn an_id_nobody_submitted_is_unknown() {
    let fleet = Fleet::new().await;
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
    for arguments in [&["result", id.as_str(), "--json"][..], &["result", id.as_str(), "--json", "--wait=1"]] {
        let ran = run(&mut fleet.tribunal(arguments));
        assert_eq!((ran.code, state(&ran)), (2, (id.to_string(), "unknown".into())));
    }
}

#[tokio::test]
async fn who_stops_waiting_is_told_how_to_ask_again() {
    let fleet = Fleet::new().await;
    let id = RequestId::generate();
    let (two_sum, again) = (two_sum(), format!("interrupted; ask again with `tribunal result {id} --wait`"));
    let submit = ["submit", &two_sum, "--id", id.as_str(), "--wait"];
    for (arguments, said) in [(&submit[..], "submitted as"), (&["watch", id.as_str()], "queued")] {
        let mut command = fleet.tribunal(arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let first: Box<dyn Read> = match arguments[0] {
            "submit" => Box::new(child.stderr.take().unwrap()),
            _ => Box::new(child.stdout.take().unwrap()),
        };
        // From its first line on it waits.
        let (mut first, mut text) = (BufReader::new(first), String::new());
        first.read_line(&mut text).unwrap();
        assert!(text.starts_with(said), "{text}");
        let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
        assert!(killed.success());
        first.read_to_string(&mut text).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130));
        text.push_str(&String::from_utf8_lossy(&output.stderr));
        assert!(text.ends_with(&format!("tribunal: {again}\n")), "{text}");
    }
}

#[tokio::test]
async fn a_trace_travels_with_its_request_and_nonsense_stays_behind() {
    let fleet = Fleet::new().await;
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    for (said, carried) in [(trace, Some(trace)), ("nonsense\x1b", None), ("", None)] {
        let ran = run(fleet.tribunal(&["submit", &two_sum()]).env("TRACEPARENT", said));
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let warned = ran.stderr.starts_with("tribunal: TRACEPARENT is left out") && !ran.stderr.contains('\x1b');
        assert!(if said.starts_with("nonsense") { warned } else { ran.stderr.is_empty() }, "{}", ran.stderr);
        let mut consumer = fleet.broker.consume(&[], 1).await.unwrap();
        let delivery = consumer.next().await.unwrap();
        assert_eq!(delivery.traceparent.as_deref(), carried);
        delivery.ack().await.unwrap();
    }
}

#[tokio::test]
async fn doctor_counts_the_workers() {
    let fleet = Fleet::new().await;
    let queue = || {
        let mut doctor = fleet.tribunal(&["doctor", "--json"]);
        doctor.env("TRIBUNAL_SANDBOX__KIND", "docker").env("TRIBUNAL_SANDBOX__WORKSPACE_ROOT", fleet.folder.path());
        let ran = run(doctor.env("TRIBUNAL_SANDBOX__DOCKER__HOST", "unix:///no/such/socket"));
        let checks: Vec<serde_json::Value> = serde_json::from_str(&ran.stdout).unwrap();
        let check = checks.into_iter().find(|check| check["check"] == "RabbitMQ").unwrap();
        (check["ok"].as_bool().unwrap(), check["detail"].as_str().unwrap().to_owned())
    };
    let (ok, told) = queue();
    assert!(ok && told.contains("no worker connected: submissions will wait until one is started"), "{told}");
    let _worker = fleet.broker.consume(&[], 1).await.unwrap();
    let (ok, told) = queue();
    assert!(ok && told.contains("1 worker connected"), "{told}");
}
