//! Requests, briefly.

use tribunal_shared::request::{ExecutionRequest, RequestId, TestCase};

/// A request with a fresh id and no limits of its own.
pub fn request(language: &str, code: &str, tests: &[(&str, &str)]) -> ExecutionRequest {
    ExecutionRequest {
        request_id: Some(RequestId::generate().into()),
        code: code.into(),
        language: language.into(),
        test_cases: tests.iter().map(|(input, expected)| test(input, expected)).collect(),
        timeout_ms: None,
        total_timeout_ms: None,
        memory_limit_mb: None,
        cpu_limit: None,
        priority: None,
        metadata: serde_json::Map::new(),
    }
}

pub fn test(input: &str, expected: &str) -> TestCase {
    TestCase { input: input.into(), expected_output: expected.into(), ..TestCase::default() }
}

/// A request for the machine's shell, which sleeps for so many seconds and then answers as expected.
pub fn sleeping(seconds: f64) -> ExecutionRequest {
    let code = format!("sleep {seconds}; echo slept");
    ExecutionRequest { timeout_ms: Some(60_000), ..request("bash", &code, &[("", "slept")]) }
}
