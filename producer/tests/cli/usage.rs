//! How the command behaves towards people and scripts: help, usage, settings, pipes.

use std::io::Write as _;
use std::path::Path;
use std::process::{Output, Stdio};

use tempfile::tempdir;

use crate::common::{Ran, example, run, tribunal};

const COMMANDS: [&str; 11] =
    ["judge", "run", "submit", "result", "watch", "cancel", "fleet", "dead", "languages", "doctor", "bench"];

fn tribunal_with(arguments: &[&str]) -> Ran {
    let folder = tempdir().unwrap();
    run(tribunal(folder.path()).args(arguments))
}

#[test]
fn every_command_explains_itself_with_examples_and_exit_codes() {
    let general = tribunal_with(&["--help"]);
    assert_eq!(general.code, 0);
    for command in COMMANDS {
        assert!(general.stdout.contains(&format!("\n  {command} ")), "{}", general.stdout);
        let special = tribunal_with(&[command, "--help"]);
        assert_eq!(special.code, 0);
        assert!(special.stdout.contains("Examples:") && special.stdout.contains("Exit codes:"), "{}", special.stdout);
        assert!(special.stdout.contains(&format!("tribunal {command}")), "{}", special.stdout);
    }
}

#[test]
fn bad_usage_is_exit_code_2() {
    for arguments in [
        &[][..],
        &["jduge"],
        &["judge"],
        &["judge", "/no/such/path"],
        &["judge", "x", "--timeout-ms", "soon"],
        &["run"],
        &["run", "/no/such/path"],
        &["bench", "--only", "bare,lxc"],
        &["result", "an id with spaces"],
        &["submit", "x", "--json"],
        &["submit", "x", "--priority", "urgent"],
        &["cancel"],
        &["cancel", "an id with spaces"],
        &["fleet", "--watch=0"],
        &["dead"],
        &["dead", "show"],
        &["dead", "requeue"],
        &["dead", "drop", "x", "--all"],
    ] {
        let ran = tribunal_with(arguments);
        assert_eq!(ran.code, 2, "{arguments:?}: {}", ran.stderr);
        assert!(!ran.stderr.is_empty() && ran.stdout.is_empty(), "{arguments:?}");
    }
}

#[test]
fn a_wrong_setting_names_itself() {
    let folder = tempdir().unwrap();
    std::fs::write(folder.path().join("tribunal.toml"), "[queue]\nulr = 'amqp://x'").unwrap();
    let ran = run(tribunal(folder.path()).args(["languages", "--offline"]));
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.starts_with("tribunal: ") && ran.stderr.contains("ulr"), "{}", ran.stderr);

    let ran = run(tribunal(tempdir().unwrap().path())
        .args(["languages", "--offline"])
        .env("TRIBUNAL_SANDBOX__OUTPUT_LIMIT_KB", "much"));
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("output_limit_kb"), "{}", ran.stderr);

    let ran = tribunal_with(&["languages", "--offline", "--config", "/no/such/file.toml"]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("/no/such/file.toml"), "{}", ran.stderr);
}

#[test]
fn a_bad_request_is_told_in_full_and_needs_no_sandbox() {
    let folder = tempdir().unwrap();
    let request = r#"{"code": " ", "language": "python", "timeout_ms": 1, "test_cases": [{"expected_output": ""}]}"#;
    std::fs::write(folder.path().join("request.json"), request).unwrap();
    let nowhere = |arguments: &[&str]| {
        let mut command = tribunal(folder.path());
        command.env("TRIBUNAL_SANDBOX__DOCKER__HOST", "unix:///no/such/socket");
        run(command.args(["judge", "request.json"]).args(arguments))
    };
    let ran = nowhere(&[]);
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""));
    let lines: Vec<_> = ran.stderr.lines().collect();
    assert_eq!(lines[0], "tribunal: the request is not valid:");
    assert!(lines.contains(&"code: is empty"), "{lines:?}");
    assert!(lines.iter().any(|line| line.starts_with("timeout_ms: 1 ms")), "{lines:?}");

    let ran = nowhere(&["--json", "--id", "mine"]);
    assert_eq!(ran.code, 2);
    let result: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(result["error_info"]["code"], "VALIDATION_ERROR");
    assert_eq!(result["request_id"], "mine");
}

fn fed(arguments: &[&str], request: &[u8]) -> Output {
    let folder = tempdir().unwrap();
    let mut child = tribunal(folder.path())
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(request).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn a_request_can_come_from_stdin() {
    let request = br#"{"code": "x", "language": "cobol", "test_cases": [{"expected_output": ""}]}"#;
    let output = fed(&["judge", "-"], request);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("\nlanguage: \"cobol\" is not supported"));
}

#[test]
fn what_is_no_request_is_a_result_as_json_too() {
    for (arguments, body, id) in [
        (&["judge", "-", "--json"][..], &br#"{"request_id": "its-own"}"#[..], "its-own"),
        (&["judge", "-", "--json", "--id", "mine"], b"{}", "mine"),
        (&["submit", "-", "--wait", "--json", "--id", "mine"], b"no JSON", "mine"),
    ] {
        let output = fed(arguments, body);
        assert_eq!(output.status.code(), Some(2));
        let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(result["error_info"]["code"], "VALIDATION_ERROR");
        assert_eq!(result["request_id"], id);
        assert!(String::from_utf8_lossy(&output.stderr).starts_with("tribunal: stdin is no request: "));
    }
}

#[test]
fn memory_is_no_way_to_a_fleet() {
    let two_sum = example("two_sum");
    for arguments in [
        &["submit", two_sum.to_str().unwrap(), "--queue-url", "memory://"][..],
        &["submit", two_sum.to_str().unwrap(), "--store-url", "memory://"],
        &["result", "an-id", "--store-url", "memory://"],
        &["watch", "an-id", "--store-url", "memory://"],
        &["cancel", "an-id", "--store-url", "memory://"],
        &["fleet", "--queue-url", "memory://"],
        &["dead", "ls", "--queue-url", "memory://"],
    ] {
        let ran = tribunal_with(arguments);
        assert_eq!(ran.code, 2, "{arguments:?}");
        assert!(ran.stderr.contains("memory://") && ran.stderr.contains("tribunal judge"), "{}", ran.stderr);
    }
}

#[test]
fn languages_are_listed_without_a_sandbox_when_asked() {
    let ran = tribunal_with(&["languages", "--offline"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    assert!(ran.stdout.starts_with("LANGUAGE"), "{}", ran.stdout);
    assert!(!ran.stdout.contains('\x1b'), "no colours but on a terminal");

    let ran = tribunal_with(&["languages", "--offline", "--json"]);
    let entries: Vec<serde_json::Value> = serde_json::from_str(&ran.stdout).unwrap();
    let python = entries.iter().find(|entry| entry["name"] == "python").unwrap();
    assert_eq!((&python["extension"], &python["version"]), (&"py".into(), &serde_json::Value::Null));
}

#[test]
fn a_reader_that_went_away_is_no_reason_to_panic() {
    for arguments in [&["languages", "--offline"][..], &["languages", "--offline", "--json"], &["--help"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut child = tribunal(Path::new("/")).args(arguments).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = String::new();
        std::io::Read::read_to_string(child.stderr.as_mut().unwrap(), &mut stderr).unwrap();
        let code = child.wait().unwrap().code();
        assert!(!stderr.contains("panicked"), "{arguments:?}: {stderr}");
        if arguments[0] != "--help" {
            assert_eq!((code, stderr.as_str()), (Some(141), ""));
        }
    }
}
