//! `tribunal bench`, as short as it can be.

use std::path::Path;

use tempfile::tempdir;

use crate::common::{run, tribunal};

#[test]
fn kinds_are_measured_side_by_side_and_drawn() {
    let folder = tempdir().unwrap();
    let chart = folder.path().join("chart.svg");
    let mut command = tribunal(folder.path());
    command.env("TRIBUNAL_SANDBOX__WORKSPACE_ROOT", folder.path().join("workspaces"));
    let ran = run(command.args(["bench", "--quick", "--only", "native", "--json", "--svg"]).arg(&chart));
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    let report: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let kinds = report["kinds"].as_array().unwrap();
    assert_eq!((kinds.len(), &kinds[0]["kind"], &kinds[1]["kind"]), (2, &"bare".into(), &"native".into()));
    for kind in kinds {
        for number in ["/back_to_back/p50_ms", "/back_to_back/p95_ms", "/gapped/times_bare", "/all_at_once_per_s"] {
            assert!(
                kind.pointer(number).and_then(serde_json::Value::as_f64).is_some_and(|number| number > 0.0),
                "{kind}"
            );
        }
    }
    assert!(std::fs::read_to_string(chart).unwrap().contains(">native<"));
    assert_eq!(std::fs::read_dir(folder.path().join("workspaces")).unwrap().count(), 0);
}

#[test]
fn what_was_asked_for_and_cannot_be_measured_is_a_failure_with_its_reason() {
    let mut command = tribunal(Path::new("/"));
    command.env("TRIBUNAL_SANDBOX__DOCKER__HOST", "unix:///no/such/socket");
    let ran = run(command.args(["bench", "--quick", "--only", "docker"]));
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    let row = ran.stdout.lines().find(|line| line.starts_with("docker")).unwrap();
    assert!(row.contains("unix:///no/such/socket"), "{row}");
    assert!(ran.stdout.lines().any(|line| line.starts_with("bare ")), "{}", ran.stdout);
}

#[test]
fn a_missing_compiler_is_named_with_its_packages() {
    let ran = run(tribunal(Path::new("/")).args(["bench", "--quick"]).env("PATH", "/nowhere"));
    assert_eq!(ran.code, 3);
    assert!(ran.stderr.contains("apt-get install gcc libc6-dev"), "{}", ran.stderr);
}
