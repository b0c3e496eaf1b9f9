//! A request comes in by any door and its result comes out: the command line, the client, a plain AMQP message.

use std::process::{Command, Output};
use std::time::{Duration, Instant};

use tribunal_shared::queue::{self, Broker};
use tribunal_shared::result::{ExecutionResult, ExecutionStatus, TestStatus};
use tribunal_shared::store::{Event, State};
use tribunal_tests::requests::request;
use tribunal_tests::{Fleet, PATIENCE};

use futures_util::StreamExt;

/// Puts a body on the fleet's queue as a producer that knows nothing of us would.
fn amqp_publish(fleet: &Fleet, body: &[u8]) {
    let queue = format!("{}.requests", fleet.settings.queue.name);
    let mut publish = Command::new("amqp-publish")
        .arg(format!("--url={}", fleet.services.amqp))
        .args(["--routing-key", &queue, "--persistent"])
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(publish.stdin.as_mut().unwrap(), body).unwrap();
    drop(publish.stdin.take());
    assert!(publish.wait().unwrap().success());
}

fn redis_get(fleet: &Fleet, key: &str) -> String {
    let output = Command::new("redis-cli").args(["-u", &fleet.services.redis, "--raw", "GET", key]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

fn example(name: &str) -> String {
    format!("{}/../examples/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

async fn result_of(fleet: &Fleet, id: &str) -> ExecutionResult {
    let id = id.parse().unwrap();
    fleet.client.wait(&id, Some(PATIENCE)).await.unwrap().unwrap_or_else(|| panic!("no result:\n{}", fleet.logs()))
}

async fn broker(fleet: &Fleet) -> std::sync::Arc<dyn Broker> {
    queue::connect(&fleet.settings.queue).unwrap()
}

/// Dead-lettering is the broker's own business and takes it a moment.
async fn await_dead(fleet: &Fleet, count: u64) {
    let broker = broker(fleet).await;
    tokio::time::timeout(PATIENCE, async {
        loop {
            let depth = broker.depth().await.unwrap();
            if depth.dead == count && depth.ready == 0 {
                return;
            }
            assert!(depth.dead <= count, "{depth:?}");
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    })
    .await
    .unwrap_or_else(|_| panic!("never {count} dead letters:\n{}", fleet.logs()));
}

#[tokio::test]
async fn the_command_line_submits_and_shows_the_result_and_redis_holds_it_as_json() {
    let fleet = Fleet::started().await;
    let id = request("python", "", &[]).request_id.unwrap();
    let output = fleet.cli().args(["submit", &example("two_sum"), "--wait", "--id", &id]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(text(&output).contains("All 3 test cases passed"), "{}", text(&output));

    let stored: ExecutionResult = serde_json::from_str(&redis_get(&fleet, &format!("tribunal:result:{id}"))).unwrap();
    assert_eq!((stored.request_id.as_str(), stored.status), (id.as_str(), ExecutionStatus::AllPassed));

    let again = fleet.cli().args(["result", &id, "--json"]).output().unwrap();
    assert_eq!(serde_json::from_slice::<ExecutionResult>(&again.stdout).unwrap(), stored);
}

#[tokio::test]
async fn a_plain_amqp_message_gets_its_result() {
    let fleet = Fleet::started().await;
    let id = request("python", "", &[]).request_id.unwrap();
    let body = serde_json::json!({
        "request_id": id,
        "code": "print(input()[::-1])",
        "language": "python3",
        "test_cases": [{"input": "abc", "expected_output": "cba"}],
        "added_by_a_later_version": true,
    });
    amqp_publish(&fleet, body.to_string().as_bytes());
    let result = result_of(&fleet, &id).await;
    assert_eq!(result.status, ExecutionStatus::AllPassed);
    assert_eq!(result.test_results[0].test_id, "test_0");
}

#[tokio::test]
async fn a_malformed_message_is_dead_lettered_once_and_answered_if_its_id_can_be_read() {
    let fleet = Fleet::started().await;
    let id = request("python", "", &[]).request_id.unwrap();
    amqp_publish(&fleet, format!(r#"{{"request_id": "{id}", "code": 7, "language": "python"}}"#).as_bytes());
    let result = result_of(&fleet, &id).await;
    let error = result.error_info.unwrap();
    assert_eq!((result.status, error.code.as_str()), (ExecutionStatus::SandboxError, "VALIDATION_ERROR"));
    assert!(error.message.contains("code"), "{}", error.message);

    amqp_publish(&fleet, b"{ this is no JSON");
    amqp_publish(&fleet, b"\xff\xfe\x00");
    amqp_publish(&fleet, br#"{"request_id": "no/such id", "code": "x", "language": "python", "test_cases": []}"#);
    await_dead(&fleet, 4).await;

    // And the worker is none the worse for it.
    assert_eq!(fleet.judge(request("bash", "cat", &[("1", "1")])).await.status, ExecutionStatus::AllPassed);
    await_dead(&fleet, 4).await;
}

#[tokio::test]
async fn a_request_that_fails_validation_on_the_worker_is_answered_with_every_problem() {
    let fleet = Fleet::started().await;
    let id = request("python", "", &[]).request_id.unwrap();
    let body = serde_json::json!({
        "request_id": id, "code": " \n", "language": "python", "test_cases": [], "memory_limit_mb": 5,
    });
    amqp_publish(&fleet, body.to_string().as_bytes());
    let error = result_of(&fleet, &id).await.error_info.unwrap();
    assert_eq!((error.code.as_str(), error.stage.as_str()), ("VALIDATION_ERROR", "validation"));
    for field in ["code", "test_cases", "memory_limit_mb"] {
        assert!(error.message.contains(field), "{field} in {}", error.message);
    }

    let id = request("python", "", &[]).request_id.unwrap();
    let tests = serde_json::json!([{"expected_output": ""}]);
    let body = serde_json::json!({"request_id": id, "code": "x", "language": "cobol", "test_cases": tests});
    amqp_publish(&fleet, body.to_string().as_bytes());
    let error = result_of(&fleet, &id).await.error_info.unwrap();
    assert_eq!(error.code, "UNSUPPORTED_LANGUAGE");
    assert_eq!(broker(&fleet).await.depth().await.unwrap().dead, 0);
}

#[tokio::test]
async fn the_same_request_twice_is_one_and_another_under_its_id_is_refused() {
    let fleet = Fleet::started().await;
    let first = request("bash", "cat", &[("1", "1")]);
    let result = fleet.judge(first.clone()).await;
    assert_eq!(fleet.judge(first.clone()).await, result, "the stored result, not a second run");

    let mut other = first.clone();
    other.code = "echo 2".into();
    let error = fleet.client.submit(other.clone()).await.unwrap_err().to_string();
    assert!(error.contains(first.request_id.as_deref().unwrap()), "{error}");

    // Past the client, straight onto the queue: the first result stands.
    amqp_publish(&fleet, &serde_json::to_vec(&other).unwrap());
    await_dead(&fleet, 1).await;
    assert_eq!(result_of(&fleet, first.request_id.as_deref().unwrap()).await, result);
}

#[tokio::test]
async fn a_malformed_message_cannot_take_over_the_id_of_another_request() {
    let mut fleet = Fleet::new().await;
    let id = fleet.client.submit(request("bash", "cat", &[("1", "1")])).await.unwrap();
    amqp_publish(&fleet, format!(r#"{{"request_id": "{id}", "code": 7}}"#).as_bytes());
    fleet.start_worker();
    assert_eq!(result_of(&fleet, id.as_str()).await.status, ExecutionStatus::AllPassed);
    await_dead(&fleet, 1).await;
    assert_eq!(result_of(&fleet, id.as_str()).await.status, ExecutionStatus::AllPassed);
}

/// What no honest client sends: properties that are not text, and a count that only the broker may make.
#[tokio::test]
async fn a_message_that_cannot_be_read_costs_its_neighbours_nothing() {
    let mut fleet = Fleet::new().await;
    let queue = format!("{}.requests", fleet.settings.queue.name);
    let before: Vec<_> = (0..2).map(|_| request("bash", "cat", &[("1", "1")])).collect();
    let after: Vec<_> = (0..4).map(|_| request("bash", "cat", &[("1", "1")])).collect();
    let forged = request("bash", "cat", &[("1", "1")]);
    for request in &before {
        fleet.client.submit(request.clone()).await.unwrap();
    }
    publish_raw(&fleet.services.amqp, &queue, b"\xff\xfe\xfd", &serde_json::to_vec(&forged).unwrap()).await;
    for request in &after {
        fleet.client.submit(request.clone()).await.unwrap();
    }
    fleet.start_worker();
    let began = Instant::now();
    for request in before.iter().chain(&after) {
        let result = result_of(&fleet, request.request_id.as_deref().unwrap()).await;
        assert_eq!(result.status, ExecutionStatus::AllPassed, "{result:?}");
    }
    // Some seconds; it would be a minute if the worker took it for a broker that is away, and waited ever longer.
    assert!(began.elapsed() < Duration::from_secs(30), "they waited for {:?}", began.elapsed());
    let unanswered = async || broker(&fleet).await.depth().await.unwrap().unanswered;
    tokio::time::timeout(PATIENCE, async { while unanswered().await == 0 {} }).await.expect("it is put aside");
    // It is not where it would keep people from their dead letters.
    let dead = fleet.cli().args(["dead", "ls"]).output().expect("tribunal runs");
    assert_eq!(String::from_utf8_lossy(&dead.stdout), "no dead letters\n", "{dead:?}");
}

/// A message whose `message-id` is these bytes, in AMQP 0-9-1 by hand: no client library would send it.
async fn publish_raw(url: &str, queue: &str, message_id: &[u8], body: &[u8]) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    fn short(text: &[u8]) -> Vec<u8> {
        [&[text.len() as u8], text].concat()
    }
    fn long(bytes: &[u8]) -> Vec<u8> {
        [&(bytes.len() as u32).to_be_bytes(), bytes].concat()
    }
    fn frame(kind: u8, channel: u16, payload: &[u8]) -> Vec<u8> {
        [&[kind][..], &channel.to_be_bytes(), &long(payload), &[0xce]].concat()
    }
    fn method(channel: u16, class: u16, number: u16, arguments: &[u8]) -> Vec<u8> {
        frame(1, channel, &[&class.to_be_bytes()[..], &number.to_be_bytes(), arguments].concat())
    }

    let server = url.rsplit_once('@').unwrap().1.split('/').next().unwrap();
    let mut stream = tokio::net::TcpStream::connect(server).await.unwrap();
    let answer = async |stream: &mut tokio::net::TcpStream| {
        let mut head = [0; 7];
        stream.read_exact(&mut head).await.unwrap();
        let length = u32::from_be_bytes(head[3..].try_into().unwrap()) as usize;
        stream.read_exact(&mut vec![0; length + 1]).await.unwrap();
    };
    let start_ok = [&long(b"")[..], &short(b"PLAIN"), &long(b"\0guest\0guest"), &short(b"en_US")].concat();
    let tune_ok = [&2047_u16.to_be_bytes()[..], &131_072_u32.to_be_bytes(), &0_u16.to_be_bytes()].concat();
    let open = [&short(b"/")[..], &short(b""), &[0]].concat();
    stream.write_all(b"AMQP\0\0\x09\x01").await.unwrap();
    answer(&mut stream).await;
    stream.write_all(&method(0, 10, 11, &start_ok)).await.unwrap();
    answer(&mut stream).await;
    stream.write_all(&method(0, 10, 31, &tune_ok)).await.unwrap();
    stream.write_all(&method(0, 10, 40, &open)).await.unwrap();
    answer(&mut stream).await;
    stream.write_all(&method(1, 20, 10, &short(b""))).await.unwrap();
    answer(&mut stream).await;
    stream.write_all(&method(1, 85, 10, &[0])).await.unwrap();
    answer(&mut stream).await;
    let publish = [&0_u16.to_be_bytes()[..], &short(b""), &short(queue.as_bytes()), &[0]].concat();
    // Of all properties only the message id, which is bit 7.
    let header =
        [&60_u16.to_be_bytes()[..], &[0, 0], &(body.len() as u64).to_be_bytes(), &[0, 0x80], &short(message_id)];
    stream.write_all(&method(1, 60, 40, &publish)).await.unwrap();
    stream.write_all(&frame(2, 1, &header.concat())).await.unwrap();
    stream.write_all(&frame(3, 1, body)).await.unwrap();
    // The confirm.
    answer(&mut stream).await;
}

#[tokio::test]
async fn a_body_that_is_too_large_is_answered() {
    let mut fleet = Fleet::with("limits.max_request_bytes = 1000\n").await;
    fleet.start_worker();
    let large = request("bash", &"#".repeat(2000), &[("1", "1")]);
    amqp_publish(&fleet, &serde_json::to_vec(&large).unwrap());
    let error = result_of(&fleet, large.request_id.as_deref().unwrap()).await.error_info.unwrap();
    assert_eq!(error.code, "VALIDATION_ERROR");
    assert!(error.message.contains("bytes long, at most 1000"), "{}", error.message);
    await_dead(&fleet, 1).await;
}

#[tokio::test]
async fn every_step_can_be_followed_and_resumed() {
    let mut fleet = Fleet::new().await;
    let id = fleet.client.submit(request("c", "int main(){return 0;}", &[("", ""), ("", "x")])).await.unwrap();
    assert_eq!(fleet.client.poll(&id).await.unwrap(), State::Queued);
    let events = fleet.client.events(&id, None).await.unwrap();
    fleet.start_worker();
    let events: Vec<_> = tokio::time::timeout(PATIENCE, events.map(Result::unwrap).collect::<Vec<_>>()).await.unwrap();

    let names: Vec<_> = events
        .iter()
        .map(|numbered| match &numbered.event {
            Event::Queued => "queued".to_owned(),
            Event::Running { attempt, .. } => format!("running {attempt}"),
            Event::Compiled { .. } => "compiled".to_owned(),
            Event::Test { status: TestStatus::Passed, index: 0, total: 2, .. } => "passed".to_owned(),
            Event::Test { status: TestStatus::WrongAnswer, index: 1, total: 2, .. } => "wrong".to_owned(),
            Event::Done { status: ExecutionStatus::SomePassed, .. } => "done".to_owned(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(names[..3], ["queued", "running 1", "compiled"]);
    assert_eq!(names[5], "done");
    let mut tests = names[3..5].to_vec();
    tests.sort();
    assert_eq!(tests, ["passed", "wrong"]);

    let rest = fleet.client.events(&id, Some(events[3].id.clone())).await.unwrap();
    assert_eq!(rest.map(Result::unwrap).collect::<Vec<_>>().await, events[4..]);
}

#[tokio::test]
async fn the_embedded_mode_judges_without_queue_or_store() {
    let fleet = Fleet::new().await;
    let unreachable = [("TRIBUNAL_QUEUE__URL", "amqp://127.0.0.1:1"), ("TRIBUNAL_STORE__URL", "redis://127.0.0.1:1")];
    let output = fleet.cli().args(["judge", &example("two_sum")]).envs(unreachable).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(text(&output).contains("All 3 test cases passed"), "{}", text(&output));

    let output = fleet.cli().args(["judge", &example("wrong_answer")]).envs(unreachable).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert_eq!(fleet.tenants(), Vec::<String>::new());
}
