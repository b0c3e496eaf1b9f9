//! What an operator sees of a worker: numbers, health, traces, and logs that tell no secrets.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use tribunal_shared::request::ExecutionRequest;
use tribunal_shared::result::ExecutionStatus;
use tribunal_tests::daemon::free_port;
use tribunal_tests::requests::{request, sleeping};
use tribunal_tests::{Fleet, Ground, PATIENCE, Worker, eventually};

async fn listening() -> (Fleet, u16) {
    let port = free_port();
    let mut fleet = Fleet::on(Ground::Host, &format!("worker.slots = 2\nworker.listen = \"127.0.0.1:{port}\"\n")).await;
    fleet.start_worker();
    (fleet, port)
}

/// The value of the only line that has all of these words.
fn value(metrics: &str, words: &[&str]) -> f64 {
    let told = metrics.lines().filter(|line| !line.starts_with('#'));
    let lines: Vec<_> = told.filter(|line| words.iter().all(|word| line.contains(word))).collect();
    let [line] = lines.as_slice() else { panic!("{words:?} is in {lines:?} of\n{metrics}") };
    line.rsplit(' ').next().and_then(|value| value.parse().ok()).expect("a number")
}

#[tokio::test]
async fn a_judged_request_is_counted_and_timed_by_language_and_status() {
    let (fleet, port) = listening().await;
    fleet.judge(request("bash", "echo 1", &[("", "1"), ("", "1")])).await;
    fleet.judge(request("c", "int main(void) { return nothing }", &[("", "1")])).await;
    let again = fleet.judge(request("c", "int main(void) { return 3; }", &[("", "1")])).await;
    assert_eq!(again.status, ExecutionStatus::RuntimeError);
    // It is counted when it is stored, a moment after whoever waits may have it.
    eventually("the last one is counted", || Fleet::ask(port, "/metrics").1.contains("\"runtime_error\"} 1"));
    let (status, metrics) = Fleet::ask(port, "/metrics");
    assert_eq!(status, 200);
    let counted = |name: &str, language: &str, status: &str| {
        value(&metrics, &[name, &format!("language=\"{language}\""), &format!("status=\"{status}\"")])
    };
    assert_eq!(counted("tribunal_requests_total", "bash", "all_passed"), 1.0);
    assert_eq!(counted("tribunal_requests_total", "c", "compilation_error"), 1.0);
    assert_eq!(counted("tribunal_requests_total", "c", "runtime_error"), 1.0);
    assert_eq!(counted("tribunal_request_seconds_count", "bash", "all_passed"), 1.0);
    assert_eq!(counted("tribunal_run_seconds_count", "bash", "passed"), 2.0);
    assert_eq!(counted("tribunal_compile_seconds_count", "c", "compiled"), 1.0);
    assert_eq!(counted("tribunal_compile_seconds_count", "c", "compilation_error"), 1.0);
    assert_eq!(value(&metrics, &["tribunal_queue_wait_seconds_count", "\"bash\""]), 1.0);
    assert!(metrics.contains("tribunal_run_seconds_bucket"), "{metrics}");
    assert_eq!(value(&metrics, &["tribunal_slots "]), 2.0);
    for name in ["redeliveries", "dead_letters", "duplicates_dropped"] {
        assert_eq!(value(&metrics, &[&format!("tribunal_{name}_total ")]), 0.0, "{name}");
    }
}

#[tokio::test]
async fn it_is_alive_and_ready_when_it_takes_requests() {
    let (mut fleet, port) = listening().await;
    assert_eq!(Fleet::ask(port, "/live"), (200, "alive\n".into()));
    assert_eq!(Fleet::ask(port, "/ready"), (200, "ready\n".into()));
    assert_eq!(Fleet::ask(port, "/secrets").0, 404);
    // A second one cannot have the same address, and says so.
    let mut second = tribunal_tests::Worker::start(&fleet.settings_file(), &[]);
    assert!(!second.wait().success());
    second.await_line("worker.listen");
    fleet.worker(0).signal("TERM");
    assert!(fleet.worker(0).wait().success());
}

#[tokio::test]
async fn one_that_is_stopping_is_not_ready() {
    let (mut fleet, port) = listening().await;
    let id = fleet.client.submit(sleeping(2.0)).await.unwrap();
    eventually("it runs", || running(port) == 1.0);
    fleet.worker(0).signal("TERM");
    eventually("it says that it is stopping", || {
        let (status, why) = Fleet::ask(port, "/ready");
        status == 503 && why.contains("stopping")
    });
    // From its next heartbeat on.
    eventually("the fleet shows it", || {
        let shown = fleet.cli().arg("fleet").output().expect("tribunal runs");
        String::from_utf8_lossy(&shown.stdout).contains("stopping")
    });
    let result = fleet.client.wait(&id, Some(PATIENCE)).await.unwrap().expect("a result");
    assert_eq!(result.status, ExecutionStatus::AllPassed, "{result:?}");
}

fn running(port: u16) -> f64 {
    value(&Fleet::ask(port, "/metrics").1, &["tribunal_requests_running "])
}

#[tokio::test]
async fn those_who_connect_and_say_nothing_keep_nobody_away_for_long() {
    let (_fleet, port) = listening().await;
    let silent: Vec<_> = (0..100).map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap()).collect();
    let began = Instant::now();
    assert_eq!(Fleet::ask(port, "/live"), (200, "alive\n".into()));
    assert!(began.elapsed() < Duration::from_secs(40), "{:?}", began.elapsed());
    drop(silent);
}

#[tokio::test]
async fn logs_name_the_request_and_its_trace_and_nothing_that_is_in_it() {
    const SECRET: &str = "hunter2";
    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    let mut fleet = Fleet::on(Ground::Host, "").await;
    fleet.client = fleet.client.clone().with_traceparent(Some(format!("00-{TRACE}-b7ad6b7169203331-01")));
    fleet.start_worker();
    let told = |language: &str, code: &str| {
        let mut request = request(language, code, &[("hunter2 in", "hunter2 out")]);
        request.metadata.insert(SECRET.into(), SECRET.into());
        request
    };
    let right = told("bash", "echo hunter2 out");
    let ids = [
        (right.clone(), ExecutionStatus::AllPassed),
        (told("bash", "cat; echo hunter2 >&2; exit 3"), ExecutionStatus::RuntimeError),
        (told("c", "int main(void) { hunter2 }"), ExecutionStatus::CompilationError),
        (told("python", "import os, subprocess; os.fork(); raise Exception('hunter2')"), ExecutionStatus::RuntimeError),
        (ExecutionRequest { timeout_ms: Some(200), ..told("bash", "sleep 10 # hunter2") }, ExecutionStatus::Timeout),
    ];
    for (request, status) in ids.clone() {
        let id = request.request_id.clone().unwrap();
        let result = fleet.judge(request).await;
        assert_eq!(result.status, status, "{result:?}");
        let logs = fleet.logs();
        let own: Vec<_> = logs.lines().filter(|line| line.contains(&id)).collect();
        assert!(own.iter().any(|line| line.contains("\"judged\"")), "{logs}");
        assert!(own.iter().all(|line| line.contains(TRACE)), "{own:?}");
    }
    // Every line of a request has its id, and none says more than it must.
    let logs = fleet.logs();
    for line in logs.lines().filter(|line| line.contains("tribunal_worker::run_one") || line.contains("\"judged\"")) {
        assert!(ids.iter().any(|(request, _)| line.contains(request.request_id.as_deref().unwrap())), "{line}");
    }
    assert!(!logs.contains(SECRET), "{logs}");
}

/// Takes in what one worker exports, until that worker ends: each path with its body.
fn collected(listener: TcpListener) -> Vec<(String, Vec<u8>)> {
    let (stream, _) = listener.accept().expect("the worker connects");
    let mut reader = BufReader::new(stream);
    let mut posts = Vec::new();
    loop {
        let (mut path, mut length) = (String::new(), 0);
        for line in reader.by_ref().lines().map(|line| line.expect("a line of text")) {
            let lower = line.to_ascii_lowercase();
            if let Some(rest) = line.strip_prefix("POST ") {
                path = rest.split(' ').next().expect("a path").to_owned();
            } else if let Some(bytes) = lower.strip_prefix("content-length:") {
                length = bytes.trim().parse().expect("a number");
            } else if line.is_empty() {
                break;
            }
        }
        if path.is_empty() {
            return posts;
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).expect("the whole body");
        posts.push((path, body));
        reader.get_mut().write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").expect("the worker listens");
    }
}

#[tokio::test]
async fn a_collector_is_told_of_a_request_within_its_callers_trace_and_nothing_that_is_in_it() {
    const TRACE: u128 = 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c;
    const CALLER: u64 = 0xb7ad_6b71_6920_3331;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let collector = std::thread::spawn(move || collected(listener));
    let mut fleet = Fleet::on(Ground::Host, "").await;
    fleet.client = fleet.client.clone().with_traceparent(Some(format!("00-{TRACE:032x}-{CALLER:016x}-01")));
    let mut worker = Worker::start_exporting(&fleet.settings_file(), &endpoint);
    let code = "#include <stdio.h>\nint main(void) { puts(\"hunter2\"); return 0; }";
    let result = fleet.judge(request("c", code, &[("", "hunter2")])).await;
    assert_eq!(result.status, ExecutionStatus::AllPassed, "{result:?}");
    worker.signal("TERM");
    assert!(worker.wait().success(), "{}", worker.log());

    let posts = collector.join().unwrap();
    assert!(posts.iter().all(|(path, _)| path == "/v1/traces"), "{posts:?}");
    let sent: Vec<u8> = posts.into_iter().flat_map(|(_, body)| body).collect();
    let count = |wanted: &[u8]| sent.windows(wanted.len()).filter(|window| *window == wanted).count();
    assert_eq!(count(&TRACE.to_be_bytes()), 3, "the request, its compilation and its test are in the trace");
    assert_eq!(count(&CALLER.to_be_bytes()), 1, "the request is the caller's child");
    for said in ["tribunal-worker", "request", "compile", "test", result.request_id.as_str()] {
        assert!(count(said.as_bytes()) > 0, "{said}");
    }
    assert_eq!(count(b"hunter2"), 0);
}
