//! What a command says when the queue, the store or the sandbox is down, and how soon.

use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use tempfile::tempdir;

use crate::common::{Ran, example, run, service, tribunal};

/// What a command may take to find out that something is down.
const AT_ONCE: Duration = Duration::from_secs(5);

/// A port at which nobody listens.
fn closed() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A port at which somebody takes calls and never says a word.
fn silent() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

fn is_down(ran: &Ran, named: &[&str]) {
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    assert!(ran.took < AT_ONCE, "took {:?}", ran.took);
    assert!(ran.stderr.starts_with("tribunal: "), "{}", ran.stderr);
    assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
    for name in named {
        assert!(ran.stderr.contains(name), "{name} is not in: {}", ran.stderr);
    }
}

#[test]
fn a_store_that_is_down_is_named_with_its_address_and_a_remedy() {
    let two_sum = example("two_sum");
    let check = |port: u16, arguments: &[&str]| {
        let url = format!("redis://:secret@127.0.0.1:{port}/");
        let ran = run(tribunal(Path::new("/")).args(arguments).args(["--store-url", &url]));
        is_down(&ran, &["Redis", &format!("127.0.0.1:{port}"), "TRIBUNAL_STORE__URL"]);
        assert!(!ran.stderr.contains("secret"), "{}", ran.stderr);
    };
    for arguments in [
        &["submit", two_sum.to_str().unwrap()][..],
        &["submit", two_sum.to_str().unwrap(), "--wait"],
        &["result", "an-id"],
        &["result", "an-id", "--wait"],
        &["watch", "an-id"],
        &["cancel", "an-id"],
        &["fleet"],
        &["fleet", "--watch"],
        &["dead", "requeue", "an-id"],
    ] {
        check(closed(), arguments);
    }
    let (_listener, mute) = silent();
    check(mute, &["result", "an-id"]);
}

#[test]
fn a_queue_that_is_down_is_named_with_its_address_and_a_remedy() {
    let store = service("TEST_REDIS_URL");
    let two_sum = example("two_sum");
    let check = |port: u16, arguments: &[&str]| {
        let url = format!("amqp://me:secret@127.0.0.1:{port}/%2f");
        let mut command = tribunal(Path::new("/"));
        let ran = run(command.args(arguments).args(["--store-url", &store, "--queue-url", &url]));
        is_down(&ran, &["RabbitMQ", &format!("127.0.0.1:{port}"), "TRIBUNAL_QUEUE__URL"]);
        assert!(!ran.stderr.contains("secret"), "{}", ran.stderr);
    };
    for arguments in [
        &["submit", two_sum.to_str().unwrap()][..],
        &["fleet"],
        &["dead", "ls"],
        &["dead", "show", "an-id"],
        &["dead", "requeue", "--all"],
        &["dead", "drop", "an-id"],
    ] {
        check(closed(), arguments);
    }
    let (_listener, mute) = silent();
    check(mute, &["submit", two_sum.to_str().unwrap()]);
    check(mute, &["fleet"]);
    check(mute, &["dead", "ls"]);
}

#[test]
fn a_sandbox_that_is_down_is_named_with_its_address_and_a_remedy() {
    let folder = tempdir().unwrap();
    let (_listener, mute) = silent();
    for (host, reason) in [
        ("unix:///no/such/socket".to_owned(), "cannot reach"),
        (format!("tcp://127.0.0.1:{}", closed()), "cannot reach"),
        (format!("tcp://127.0.0.1:{mute}"), "no answer within"),
    ] {
        let with_host = |arguments: &[&str]| {
            let mut command = tribunal(folder.path());
            command.env("TRIBUNAL_SANDBOX__WORKSPACE_ROOT", folder.path());
            run(command
                .env("TRIBUNAL_SANDBOX__KIND", "docker")
                .env("TRIBUNAL_SANDBOX__DOCKER__HOST", &host)
                .args(arguments))
        };
        let ran = with_host(&["judge", example("two_sum").to_str().unwrap()]);
        is_down(&ran, &["Docker", &host, reason, "TRIBUNAL_SANDBOX__DOCKER__HOST"]);

        let ran = with_host(&["languages"]);
        is_down(&ran, &["Docker", &host]);
        assert!(ran.stdout.lines().any(|line| line.starts_with("python ")), "the table comes all the same");
    }
}

#[test]
fn doctor_finds_everything_that_is_down_at_once() {
    let (listeners, ports): (Vec<_>, Vec<_>) = [silent(), silent(), silent()].into_iter().unzip();
    let silent = [ports[0], ports[1], ports[2]];
    for ([queue, store, docker], reason) in
        [([closed(), closed(), closed()], "cannot reach"), (silent, "no answer within")]
    {
        let down = |arguments: &[&str]| {
            let mut command = tribunal(Path::new("/"));
            command.env("TRIBUNAL_SANDBOX__KIND", "docker");
            command.env("TRIBUNAL_SANDBOX__DOCKER__HOST", format!("tcp://127.0.0.1:{docker}"));
            command.args(["doctor", "--queue-url", &format!("amqp://127.0.0.1:{queue}/%2f")]);
            run(command.args(["--store-url", &format!("redis://127.0.0.1:{store}/")]).args(arguments))
        };
        let ran = down(&[]);
        assert_eq!(ran.code, 3, "{}", ran.stderr);
        assert!(ran.took < AT_ONCE, "took {:?}", ran.took);
        for port in [queue, store, docker] {
            let line = ran.stdout.lines().find(|line| line.contains(&format!(":{port}")));
            assert!(line.is_some_and(|line| line.starts_with("✗ ") && line.contains(reason)), "{}", ran.stdout);
        }
        assert!(ran.stdout.ends_with("tribunal-worker: does not work\n"), "{}", ran.stdout);

        let checks: Vec<serde_json::Value> = serde_json::from_str(&down(&["--json"]).stdout).unwrap();
        assert!(checks.len() >= 3 && checks.iter().all(|check| check["ok"] == false), "{checks:?}");
    }
    drop(listeners);
}
