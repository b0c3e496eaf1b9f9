//! `tribunal doctor`: what works here and what does not.

use std::time::Duration;

use serde::Serialize;
use tokio::time::timeout;
use tribunal_shared::address;
use tribunal_shared::config::{SandboxKind, Settings};
use tribunal_shared::queue::{self, Depth};
use tribunal_shared::store;

use super::args::Doctor;
use super::exit::{Exit, Failure};
use super::{ANSWER_WITHIN, embedded, escape, output};

#[derive(Debug, PartialEq, Serialize)]
struct Check {
    check: String,
    ok: bool,
    /// What was found, or what is wrong and what helps.
    detail: String,
}

impl Check {
    fn new(check: impl Into<String>, found: Result<String, String>) -> Self {
        let ok = found.is_ok();
        Self { check: check.into(), ok, detail: found.unwrap_or_else(|problem| problem) }
    }
}

pub async fn run(arguments: Doctor, settings: &Settings) -> Result<Exit, Failure> {
    let (queue, store, sandbox) = tokio::join!(queue(settings), store(settings), sandbox(settings));
    let fleet = queue.ok && store.ok;
    let here = sandbox.iter().all(|check| check.ok);
    let checks: Vec<_> = [queue, store].into_iter().chain(sandbox).collect();

    if arguments.json {
        output::print_json(&checks)?;
    } else {
        output::print(&report(&checks, fleet, here))?;
    }
    Ok(if fleet && here { Exit::Success } else { Exit::Infrastructure })
}

async fn queue(settings: &Settings) -> Check {
    let address = address::without_credentials(&settings.queue.url);
    let depth = async {
        let depth = queue::connect(&settings.queue).map_err(|error| error.to_string())?.depth().await;
        depth.map_err(|error| error.to_string())
    };
    match address::scheme(&settings.queue.url) {
        "memory" => Check::new("queue", Err(only_here("queue.url"))),
        _ => {
            let found = within(ANSWER_WITHIN, &address, depth).await;
            Check::new("RabbitMQ", found.map(|depth| format!("{address}, {}", told(depth))))
        }
    }
}

fn told(Depth { ready, dead, parked, consumers, .. }: Depth) -> String {
    let workers = match consumers {
        0 => "no worker connected: submissions will wait until one is started".into(),
        1 => "1 worker connected".into(),
        _ => format!("{consumers} workers connected"),
    };
    let parked = match parked {
        0 => String::new(),
        _ => format!("{parked} parked for a newer version, "),
    };
    format!("{ready} requests waiting, {dead} dead letters, {parked}{workers}")
}

async fn store(settings: &Settings) -> Check {
    let address = address::without_credentials(&settings.store.url);
    let reached = async { store::connect(&settings.store).await.map_err(|error| error.to_string()) };
    match address::scheme(&settings.store.url) {
        "memory" => Check::new("store", Err(only_here("store.url"))),
        _ => Check::new("Redis", within(ANSWER_WITHIN, &address, reached).await.map(|_| address.clone())),
    }
}

async fn sandbox(settings: &Settings) -> Vec<Check> {
    let found = timeout(ANSWER_WITHIN, embedded::findings(settings)).await.unwrap_or_else(|_| {
        let remedy = match settings.sandbox.kind {
            SandboxKind::Docker => "Restart the Docker daemon",
            SandboxKind::Native => "Is the machine overloaded? Try again",
        };
        let problem = format!("no answer within {} s. {remedy}", ANSWER_WITHIN.as_secs_f32());
        vec![("sandbox".into(), Err(problem))]
    });
    found.into_iter().map(|(what, found)| Check::new(what, found)).collect()
}

async fn within<T>(
    limit: Duration,
    address: &str,
    answer: impl Future<Output = Result<T, String>>,
) -> Result<T, String> {
    let late = || format!("no answer from {address} within {} s. Is it the right address?", limit.as_secs_f32());
    timeout(limit, answer).await.unwrap_or_else(|_| Err(late()))
}

fn only_here(key: &str) -> String {
    format!("{key} is memory://, within one process: enough for `tribunal judge`, of no use to a fleet. Set {key}")
}

/// Everything that was looked at, then what follows from it.
fn report(checks: &[Check], fleet: bool, here: bool) -> String {
    let mut lines: Vec<_> = checks
        .iter()
        .map(|Check { check, ok, detail }| {
            format!("{} {}: {}", if *ok { "✓" } else { "✗" }, escape::line(check), escape::block(detail))
        })
        .collect();
    let verdict = |works: bool| if works { "works" } else { "does not work" };
    lines.push(String::new());
    lines.push(format!("tribunal submit, result, watch, cancel, fleet, dead: {}", verdict(fleet)));
    lines.push(format!("tribunal judge, run: {}", verdict(here)));
    lines.push(format!("tribunal-worker: {}\n", verdict(fleet && here)));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn memory_is_no_fleet() {
        let mut settings = Settings::defaults();
        settings.queue.url = "memory://".into();
        settings.store.url = "memory://".into();
        for check in [queue(&settings).await, store(&settings).await] {
            assert!(!check.ok && check.detail.contains("one process"), "{check:?}");
        }
    }

    #[test]
    fn a_fleet_without_workers_is_no_failure_but_said() {
        let depth = |consumers| Depth { ready: 2, consumers, ..Depth::default() };
        assert_eq!(told(depth(3)), "2 requests waiting, 0 dead letters, 3 workers connected");
        assert!(told(depth(1)).ends_with("1 worker connected"));
        assert!(told(depth(0)).ends_with("no worker connected: submissions will wait until one is started"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_service_is_given_up() {
        let silent = std::future::pending::<Result<(), String>>();
        let problem = within(ANSWER_WITHIN, "amqp://nowhere/", silent).await.unwrap_err();
        assert!(problem.contains("amqp://nowhere/") && problem.contains("4.5 s"), "{problem}");
    }

    #[test]
    fn the_report_says_what_follows() {
        let checks = [
            Check::new("RabbitMQ", Ok("amqp://host/".into())),
            Check::new("Docker", Err("cannot\x1b reach it".into())),
        ];
        assert_eq!(
            report(&checks, true, false),
            "✓ RabbitMQ: amqp://host/\n✗ Docker: cannot\\u{1b} reach it\n\n\
             tribunal submit, result, watch, cancel, fleet, dead: works\ntribunal judge, run: does not work\ntribunal-worker: does not work\n"
        );
    }
}
