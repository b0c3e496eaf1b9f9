//! `tribunal fleet` on real services.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};

use serde_json::Value;
use tribunal_shared::request::RequestId;
use tribunal_shared::store::WorkerReport;

use crate::common::run;
use crate::services::{Fleet, two_sum};

fn worker(fleet: &Fleet, unready: &str) -> WorkerReport {
    WorkerReport {
        name: format!("worker-{}", RequestId::generate()),
        host: "a-host".into(),
        version: "7.8.9".into(),
        queue: fleet.settings.queue.name.clone(),
        slots: 4,
        running: 1,
        done: 42,
        languages: vec!["go".into()],
        missing: Vec::new(),
        unready: unready.into(),
    }
}

fn queue(view: &Value, name: &str) -> Value {
    view["queues"].as_array().unwrap().iter().find(|queue| queue["queue"] == name).unwrap().clone()
}

#[tokio::test]
async fn workers_and_lanes_are_shown() {
    let fleet = Fleet::new().await;
    for priority in ["high", "low", "low"] {
        let ran = run(&mut fleet.tribunal(&["submit", &two_sum(), "--priority", priority]));
        assert_eq!(ran.code, 0, "{}", ran.stderr);
    }
    // The store is everybody's: others have workers there.
    let (ready, unready) = (worker(&fleet, ""), worker(&fleet, "no daemon\x1b[2J"));
    let foreign = WorkerReport { queue: "another fleet's".into(), ..worker(&fleet, "") };
    for report in [&ready, &unready, &foreign] {
        fleet.store.beat(report, &[]).await.unwrap();
    }

    let ran = run(&mut fleet.tribunal(&["fleet"]));
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    let line = |start: &str| ran.stdout.lines().find(|line| line.starts_with(start)).unwrap().to_owned();
    let words = |line: String| line.split_whitespace().map(ToOwned::to_owned).collect::<Vec<_>>();
    let row = words(line(&ready.name));
    assert_eq!(
        (&row[1..5], row[8..].join(" ")),
        (&["a-host", "1", "4", "42"].map(Into::into)[..], "7.8.9 go ready".into())
    );
    assert!(!ran.stdout.contains(&foreign.name), "{}", ran.stdout);
    assert!(line(&unready.name).ends_with("not ready: no daemon\\u{1b}[2J"), "{}", ran.stdout);
    let name = format!("{}.requests", fleet.settings.queue.name);
    assert_eq!(words(line(&name)), [name.as_str(), "1", "0", "2"]);
    assert!(ran.stdout.ends_with("\n3 waiting, 0 dead, 0 parked for a newer version\n"), "{}", ran.stdout);

    let view: Value = serde_json::from_str(&run(&mut fleet.tribunal(&["fleet", "--json"])).stdout).unwrap();
    assert_eq!((&view["waiting"], &view["dead"], &view["parked"]), (&3.into(), &0.into(), &0.into()));
    assert_eq!((&queue(&view, &name)["high"], &queue(&view, &name)["low"]), (&1.into(), &2.into()));
    let found =
        view["workers"].as_array().unwrap().iter().find(|worker| worker["name"] == ready.name.as_str()).unwrap();
    assert_eq!((&found["slots"], &found["done"], &found["unready"]), (&4.into(), &42.into(), &"".into()));
    assert!(found["alive"].is_boolean() && found["last_heartbeat_ms"].is_u64(), "{found}");
    for worker in [ready, unready] {
        fleet.store.leave(&worker.name).await.unwrap();
    }
}

#[tokio::test]
async fn watching_prints_a_line_each_time_until_it_is_interrupted() {
    let fleet = Fleet::new().await;
    let mut command = fleet.tribunal(&["fleet", "--watch=1", "--json"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for _ in 0..2 {
        let view: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        assert_eq!(view["waiting"], 0);
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(0), ""));
}

#[tokio::test]
async fn watching_ends_when_nobody_reads_any_more() {
    let fleet = Fleet::new().await;
    let mut command = fleet.tribunal(&["fleet", "--watch=1"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0]).unwrap();
    drop(stdout);
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(141), ""));
}
