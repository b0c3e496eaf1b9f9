use std::sync::LazyLock;

use serde_json::{Value, json};

use super::*;
use crate::config::Settings;

mod bounds;
mod properties;
mod wire;

static SETTINGS: LazyLock<Settings> = LazyLock::new(Settings::defaults);
static LANGUAGES: LazyLock<Languages> = LazyLock::new(|| SETTINGS.languages());

/// The smallest request that is right, as JSON.
fn minimal() -> Value {
    json!({
        "request_id": "r-1",
        "code": "print(1)",
        "language": "python",
        "test_cases": [{"expected_output": "1"}],
    })
}

/// The minimal request with some of its fields changed.
fn with(changes: Value) -> Value {
    let mut request = minimal();
    for (name, value) in changes.as_object().expect("changes are an object") {
        request[name] = value.clone();
    }
    request
}

fn parse(json: &Value) -> ExecutionRequest {
    ExecutionRequest::from_json(json.to_string().as_bytes()).expect("a request")
}

fn malformed(json: &Value) -> Malformed {
    ExecutionRequest::from_json(json.to_string().as_bytes()).expect_err("not a request")
}

fn check(json: &Value) -> Result<Job, Rejection> {
    Job::check(parse(json), &SETTINGS.limits, &LANGUAGES)
}

/// The problems that the minimal request has with these changes, as (field, message).
fn problems(changes: Value) -> Vec<(String, String)> {
    match check(&with(changes)) {
        Ok(_) => Vec::new(),
        Err(Rejection::Invalid(problems)) => problems.into_iter().map(|p| (p.field, p.message)).collect(),
        Err(rejection) => panic!("{rejection}"),
    }
}

fn fields(changes: Value) -> Vec<String> {
    problems(changes).into_iter().map(|(field, _)| field).collect()
}

fn tests(count: usize) -> Value {
    json!(vec![json!({"expected_output": ""}); count])
}
