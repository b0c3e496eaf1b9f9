//! `tribunal dead` on real services.

use serde_json::Value;
use tribunal_shared::queue::DeadLetter;
use tribunal_shared::request::RequestId;
use tribunal_shared::result::{Attempt, ExecutionResult};

use crate::common::{Ran, run};
use crate::services::Fleet;

fn letter(fleet: &Fleet, id: &str) -> DeadLetter {
    let body = format!(
        r#"{{"request_id": "{id}", "code": "print(1)\u001b[2J", "language": "python",
            "test_cases": [{{"expected_output": "1"}}]}}"#
    );
    DeadLetter {
        id: Some(id.into()),
        body: body.into(),
        kind: None,
        queue: format!("{}.requests", fleet.settings.queue.name),
        reason: "no daemon \x1b[2J at all".into(),
        attempts: vec![Attempt { attempt: 1, worker: "worker-1".into(), end: "its worker died".into() }],
        died_at_ms: 1_735_689_599_000,
        traceparent: None,
    }
}

/// Buries requests, as a worker does that gives them up.
async fn bury(fleet: &Fleet, ids: &[&RequestId]) {
    for id in ids {
        let letter = letter(fleet, id.as_str());
        fleet.broker.bury(&letter).await.unwrap();
        let given_up = ExecutionResult::gave_up(id, letter.attempts, &letter.reason);
        fleet.store.put(id, None, &given_up).await.unwrap();
    }
}

fn dead(fleet: &Fleet, arguments: &[&str]) -> Ran {
    run(fleet.tribunal(&["dead"]).args(arguments))
}

fn json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{} {}", ran.stdout, ran.stderr))
}

#[tokio::test]
async fn dead_letters_are_listed_and_shown() {
    let fleet = Fleet::new().await;
    let ran = dead(&fleet, &["ls"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "no dead letters\n"), "{}", ran.stderr);
    let id = RequestId::generate();
    bury(&fleet, &[&id]).await;
    let foreign = DeadLetter { id: None, body: b"no JSON\x1b".to_vec(), ..letter(&fleet, "x") };
    fleet.broker.bury(&foreign).await.unwrap();

    let ran = dead(&fleet, &["ls"]);
    let lines: Vec<_> = ran.stdout.lines().collect();
    assert_eq!((ran.code, lines.len()), (0, 3), "{}", ran.stdout);
    assert!(lines[0].starts_with("ID ") && lines[0].ends_with(" REASON"), "{}", ran.stdout);
    assert!(lines[1].starts_with(id.as_str()) && lines[1].contains(" python "), "{}", ran.stdout);
    assert!(lines[1].ends_with("no daemon \\u{1b}[2J at all") && lines[2].starts_with("body-"), "{}", ran.stdout);

    let listed = json(&dead(&fleet, &["ls", "--json"]));
    assert_eq!((&listed[0]["key"], &listed[0]["language"]), (&id.as_str().into(), &"python".into()));
    assert_eq!((&listed[1]["id"], &listed[1]["bytes"]), (&Value::Null, &8.into()));
    assert!(listed[0].get("code").is_none() && listed[0].get("body").is_none(), "{listed}");

    let ran = dead(&fleet, &["show", id.as_str()]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    for said in [
        "no daemon \\u{1b}[2J at all\n",
        "2024-12-31 23:59:59 UTC, ",
        ".requests\n",
        "python, 12 bytes of code, 1 tests; ",
        "\n  1 on worker-1: its worker died\n",
    ] {
        assert!(ran.stdout.contains(said), "{said:?} is not in: {}", ran.stdout);
    }
    assert!(!ran.stdout.contains("print(1)"), "{}", ran.stdout);
    assert!(dead(&fleet, &["show", id.as_str(), "--code"]).stdout.ends_with("\n\nprint(1)\\u{1b}[2J\n"));
    let shown = json(&dead(&fleet, &["show", id.as_str(), "--json"]));
    assert_eq!((&shown["died_at_ms"], &shown["code_bytes"]), (&1_735_689_599_000_u64.into(), &12.into()));
    assert_eq!((&shown["attempts"][0]["worker"], shown.get("code")), (&"worker-1".into(), None));
    let shown = json(&dead(&fleet, &["show", &foreign.key(), "--json", "--code"]));
    assert_eq!((&shown["code"], &shown["copies"]), (&"no JSON\x1b".into(), &1.into()));
    assert_eq!(fleet.broker.depth().await.unwrap().dead, 2, "looking takes nothing away");
}

#[tokio::test]
async fn what_is_requeued_is_queued_again() {
    let fleet = Fleet::new().await;
    let [one, two, judged] = [RequestId::generate(), RequestId::generate(), RequestId::generate()];
    bury(&fleet, &[&one, &two]).await;
    let ran = dead(&fleet, &["requeue", two.as_str()]);
    assert_eq!((ran.code, ran.stdout, ran.stderr.as_str()), (0, format!("{two}: requeued\n"), ""));
    assert_eq!(run(&mut fleet.tribunal(&["result", two.as_str()])).stdout, "queued\n");
    assert_eq!(fleet.take().await.request_id.as_deref(), Some(two.as_str()));

    fleet.broker.bury(&letter(&fleet, judged.as_str())).await.unwrap();
    fleet.store.put(&judged, None, &ExecutionResult::cancelled(&judged)).await.unwrap();
    let ran = dead(&fleet, &["requeue", "--all"]);
    assert_eq!((ran.code, ran.stdout), (1, format!("{one}: requeued\n")));
    assert!(ran.stderr.starts_with(&format!("tribunal: {judged} is not requeued")), "{}", ran.stderr);
    assert!(ran.stderr.contains("cancelled") && ran.stderr.contains("tribunal dead drop"), "{}", ran.stderr);
    assert_eq!(fleet.take().await.request_id.as_deref(), Some(one.as_str()));
    assert_eq!(fleet.broker.depth().await.unwrap().dead, 1);
}

#[tokio::test]
async fn what_is_dropped_is_gone() {
    let fleet = Fleet::new().await;
    let [one, two, three] = [RequestId::generate(), RequestId::generate(), RequestId::generate()];
    bury(&fleet, &[&one, &two, &three]).await;
    let ran = dead(&fleet, &["drop", two.as_str(), "nobody's"]);
    assert_eq!(
        (ran.code, ran.stdout),
        (2, format!("{two}: dropped\n")),
        "those that are there are dropped all the same"
    );
    assert!(ran.stderr.starts_with("tribunal: nobody's is not among the dead letters"), "{}", ran.stderr);
    let ran = dead(&fleet, &["drop", "--all"]);
    assert_eq!((ran.code, ran.stdout), (0, format!("{one}: dropped\n{three}: dropped\n")), "{}", ran.stderr);
    let ran = dead(&fleet, &["drop", "--all"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "no dead letters\n"));
    assert_eq!(run(&mut fleet.tribunal(&["result", two.as_str()])).code, 3, "its result stays");
}

#[tokio::test]
async fn a_letter_that_is_not_there_is_named_with_a_remedy() {
    let fleet = Fleet::new().await;
    for arguments in [["show", "no\x1bbody"], ["requeue", "no\x1bbody"], ["drop", "no\x1bbody"]] {
        let ran = dead(&fleet, &arguments);
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""));
        assert!(ran.stderr.starts_with("tribunal: no\\u{1b}body is not among the dead letters"), "{}", ran.stderr);
        assert!(ran.stderr.contains("tribunal dead ls"), "{}", ran.stderr);
    }
}
