//! `tribunal cancel` on real services.

use serde_json::{Value, json};
use tribunal_shared::request::RequestId;
use tribunal_shared::result::{ExecutionResult, ExecutionStatus};
use tribunal_shared::store::{Lease, WorkerReport};

use crate::common::run;
use crate::services::{Fleet, two_sum};

async fn submitted(fleet: &Fleet) -> RequestId {
    let ran = run(&mut fleet.tribunal(&["submit", &two_sum()]));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    ran.stdout.trim().parse().unwrap()
}

#[tokio::test]
async fn a_queued_request_is_cancelled_once() {
    let fleet = Fleet::new().await;
    let id = submitted(&fleet).await;
    for said in ["cancelled", "already cancelled"] {
        let ran = run(&mut fleet.tribunal(&["cancel", id.as_str()]));
        assert_eq!((ran.code, ran.stdout, ran.stderr.as_str()), (0, format!("{id}: {said}\n"), ""));
    }
    let ran = run(&mut fleet.tribunal(&["result", id.as_str(), "--json"]));
    let result: ExecutionResult = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((ran.code, result.status), (1, ExecutionStatus::Cancelled));
    let ran = run(&mut fleet.tribunal(&["result", id.as_str()]));
    assert_eq!((ran.code, ran.stdout.as_str()), (1, "Cancelled\n"));
}

#[tokio::test]
async fn a_worker_hears_that_what_it_runs_is_cancelled() {
    let fleet = Fleet::new().await;
    let id = submitted(&fleet).await;
    let request = fleet.take().await;
    let name = format!("worker-{id}");
    fleet.begin(&request, &Lease::new(&name), 1).await;
    let ran = run(&mut fleet.tribunal(&["cancel", id.as_str()]));
    assert_eq!((ran.code, ran.stdout), (0, format!("{id}: cancelled\n")), "{}", ran.stderr);
    let report = WorkerReport {
        name: name.clone(),
        host: "here".into(),
        version: "0".into(),
        queue: "q".into(),
        slots: 1,
        running: 1,
        done: 0,
        languages: Vec::new(),
        missing: Vec::new(),
        unready: String::new(),
    };
    assert_eq!(fleet.store.beat(&report, std::slice::from_ref(&id)).await.unwrap(), [id]);
    fleet.store.leave(&name).await.unwrap();
}

#[tokio::test]
async fn each_id_is_told_what_happened_and_the_gravest_is_the_exit_code() {
    let fleet = Fleet::new().await;
    let (queued, judged, unknown) = (submitted(&fleet).await, submitted(&fleet).await, RequestId::generate());
    fleet.store.put(&judged, None, &ExecutionResult::invalid(&judged, "any result will do")).await.unwrap();

    let ran = run(&mut fleet.tribunal(&["cancel", judged.as_str()]));
    assert_eq!((ran.code, ran.stdout), (1, format!("{judged}: already judged, sandbox_error\n")), "{}", ran.stderr);

    let ids = [queued.as_str(), judged.as_str(), unknown.as_str()];
    let ran = run(fleet.tribunal(&["cancel", "--json"]).args(ids));
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.starts_with(&format!("tribunal: {unknown} is unknown")), "{}", ran.stderr);
    let outcomes: Value = serde_json::from_str(&ran.stdout).unwrap();
    let expected = json!([
        {"request_id": queued, "outcome": "cancelled"},
        {"request_id": judged, "outcome": "already_judged", "status": "sandbox_error"},
        {"request_id": unknown, "outcome": "unknown"},
    ]);
    assert_eq!(outcomes, expected);
    let ran = run(&mut fleet.tribunal(&["cancel", unknown.as_str()]));
    assert_eq!((ran.code, ran.stdout), (2, format!("{unknown}: unknown\n")));
}
