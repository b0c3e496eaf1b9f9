use serde_json::{Value, json};

use super::*;
use crate::request::Problem;

const TEST_STATUSES: [TestStatus; 6] = [
    TestStatus::Passed,
    TestStatus::WrongAnswer,
    TestStatus::RuntimeError,
    TestStatus::Timeout,
    TestStatus::MemoryExceeded,
    TestStatus::OutputExceeded,
];

const STATUSES: [ExecutionStatus; 9] = [
    ExecutionStatus::AllPassed,
    ExecutionStatus::SomePassed,
    ExecutionStatus::AllFailed,
    ExecutionStatus::CompilationError,
    ExecutionStatus::RuntimeError,
    ExecutionStatus::Timeout,
    ExecutionStatus::MemoryExceeded,
    ExecutionStatus::OutputExceeded,
    ExecutionStatus::SandboxError,
];

fn id() -> RequestId {
    "r-1".parse().unwrap()
}

/// A test's result by its status and its error message; its output is `out-N`.
fn test(number: usize, status: TestStatus, message: Option<&str>) -> TestResult {
    TestResult {
        test_id: format!("t{number}"),
        status,
        actual_output: format!("out-{number}"),
        expected_output: "right".into(),
        execution_time_ms: 12,
        memory_used_kb: 3456,
        error_message: message.map(str::to_owned),
        cpu_time_ms: None,
        exit_code: None,
        signal: None,
        stderr: None,
    }
}

/// Statuses with their error messages.
type Tests = &'static [(TestStatus, Option<&'static str>)];

fn fold(tests: Tests) -> ExecutionResult {
    let tests = tests.iter().enumerate().map(|(number, (status, message))| test(number, *status, *message)).collect();
    ExecutionResult::from_tests(&id(), tests, 77)
}

fn error(code: &str, message: &str, stage: &str, details: Option<&str>) -> Option<ExecutionError> {
    Some(ExecutionError { details: details.map(str::to_owned), ..ExecutionError::new(code, message, stage) })
}

#[test]
fn every_branch_of_the_fold() {
    use TestStatus::*;
    let failed = |code, message| error(code, message, "execution", Some("out-0"));
    let table: [(Tests, &str, &str, Option<ExecutionError>); 16] = [
        (
            &[],
            "sandbox_error",
            "No test cases were executed",
            error("NO_TESTS", "No test results produced", "execution", None),
        ),
        (&[(Passed, None)], "all_passed", "All 1 test cases passed", None),
        (&[(Passed, None), (Passed, None)], "all_passed", "All 2 test cases passed", None),
        // Some passed: whatever the others are, there is no error.
        (&[(Passed, None), (WrongAnswer, None)], "some_passed", "1/2 test cases passed", None),
        (&[(Timeout, Some("slow")), (Passed, None)], "some_passed", "1/2 test cases passed", None),
        (&[(RuntimeError, Some("bad")), (Passed, None), (Passed, None)], "some_passed", "2/3 test cases passed", None),
        // None passed: the gravest names the status, the first one is the error.
        (
            &[(Timeout, Some("Test execution timed out"))],
            "timeout",
            "0/1 test cases passed",
            failed("TIMEOUT", "Test execution timed out"),
        ),
        (
            &[(MemoryExceeded, Some("Memory limit exceeded"))],
            "memory_exceeded",
            "0/1 test cases passed",
            failed("MEMORY_EXCEEDED", "Memory limit exceeded"),
        ),
        (
            &[(OutputExceeded, Some("Output limit exceeded"))],
            "output_exceeded",
            "0/1 test cases passed",
            failed("OUTPUT_EXCEEDED", "Output limit exceeded"),
        ),
        (
            &[(RuntimeError, Some("Exit code: 1"))],
            "runtime_error",
            "0/1 passed. Runtime error: Exit code: 1",
            failed("RUNTIME_ERROR", "Exit code: 1"),
        ),
        (
            &[(RuntimeError, None)],
            "runtime_error",
            "0/1 passed. Runtime error: unknown",
            failed("RUNTIME_ERROR", "Test t0 failed"),
        ),
        (&[(WrongAnswer, None)], "all_failed", "0/1 test cases passed", failed("WRONG_ANSWER", "Test t0 failed")),
        // Which is the gravest: timeout, memory, output, runtime error, wrong answer.
        (
            &[
                (WrongAnswer, None),
                (RuntimeError, Some("e")),
                (OutputExceeded, None),
                (MemoryExceeded, None),
                (Timeout, None),
            ],
            "timeout",
            "0/5 test cases passed",
            failed("WRONG_ANSWER", "Test t0 failed"),
        ),
        (
            &[(WrongAnswer, None), (RuntimeError, Some("e")), (OutputExceeded, None), (MemoryExceeded, None)],
            "memory_exceeded",
            "0/4 test cases passed",
            failed("WRONG_ANSWER", "Test t0 failed"),
        ),
        (
            &[(RuntimeError, Some("e")), (OutputExceeded, None)],
            "output_exceeded",
            "0/2 test cases passed",
            failed("RUNTIME_ERROR", "e"),
        ),
        (
            &[(WrongAnswer, None), (RuntimeError, Some("first")), (RuntimeError, Some("second"))],
            "runtime_error",
            "0/3 passed. Runtime error: first",
            failed("WRONG_ANSWER", "Test t0 failed"),
        ),
    ];
    for (tests, status, summary, error_info) in table {
        let result = fold(tests);
        assert_eq!(result.status.as_str(), status, "{tests:?}");
        assert_eq!(result.summary, summary, "{tests:?}");
        assert_eq!(result.error_info, error_info, "{tests:?}");
        assert_eq!((result.request_id.as_str(), result.total_time_ms), ("r-1", 77));
        assert_eq!(result.compilation_output, None);
        assert_eq!(result.test_results.len(), tests.len(), "all tests are in the result");
        assert!(result.test_results.iter().zip(tests).all(|(result, test)| result.status == test.0), "in their order");
    }
}

#[test]
fn details_are_cut_at_500_characters_and_never_within_one() {
    for (output, details) in [
        ("".to_owned(), None),
        ("x".to_owned(), Some("x".to_owned())),
        ("x".repeat(500), Some("x".repeat(500))),
        ("x".repeat(501), Some("x".repeat(500))),
        ("é🦀".repeat(300), Some("é🦀".repeat(250))),
        ("\0".repeat(600), Some("\0".repeat(500))),
    ] {
        let failed = TestResult { actual_output: output, ..test(0, TestStatus::WrongAnswer, None) };
        let result = ExecutionResult::from_tests(&id(), vec![failed], 1);
        assert_eq!(result.error_info.unwrap().details, details);
    }
}

#[test]
fn a_compilation_error_says_what_the_compiler_said() {
    let result = ExecutionResult::compilation_error(&id(), "expected ';'".into(), "1 error".into(), 9);
    assert_eq!(
        serde_json::to_value(result).unwrap(),
        json!({
            "request_id": "r-1",
            "status": "compilation_error",
            "test_results": [],
            "total_time_ms": 9,
            "compilation_output": "expected ';'",
            "summary": "Compilation failed: expected ';'",
            "error_info": {
                "code": "COMPILATION_ERROR",
                "message": "expected ';'",
                "stage": "compilation",
                "details": "1 error",
            },
        })
    );
    let silent = ExecutionResult::compilation_error(&id(), "Compilation failed".into(), String::new(), 9);
    assert_eq!(silent.error_info.unwrap().details, None);
}

/// The answers to requests that never ran: (result, code, message, stage, summary).
#[test]
fn what_never_ran_is_a_sandbox_error_that_says_why() {
    let problem = |field: &str, message: &str| Problem { field: field.into(), message: message.into() };
    let invalid = Rejection::Invalid(vec![problem("code", "is empty"), problem("timeout_ms", "1 ms is too little")]);
    let unsupported = Rejection::UnsupportedLanguage("cobol".into());
    let table = [
        (
            ExecutionResult::rejected(&id(), &invalid),
            "VALIDATION_ERROR",
            "code: is empty; timeout_ms: 1 ms is too little",
            "validation",
            "Validation error: code: is empty; timeout_ms: 1 ms is too little",
        ),
        (
            ExecutionResult::rejected(&id(), &unsupported),
            "UNSUPPORTED_LANGUAGE",
            "Language cobol is not supported",
            "validation",
            "Unsupported language: cobol",
        ),
        (
            ExecutionResult::invalid(&id(), "request: EOF"),
            "VALIDATION_ERROR",
            "request: EOF",
            "validation",
            "Validation error: request: EOF",
        ),
        (
            ExecutionResult::gave_up(&id(), Vec::new(), "no such image"),
            "SANDBOX_ERROR",
            "no such image",
            "execution",
            "Gave up after 0 attempts: no such image",
        ),
    ];
    for (result, code, message, stage, summary) in table {
        let expected = json!({
            "request_id": "r-1",
            "status": "sandbox_error",
            "test_results": [],
            "total_time_ms": 0,
            "compilation_output": null,
            "summary": summary,
            "error_info": {"code": code, "message": message, "stage": stage, "details": null},
        });
        assert_eq!(serde_json::to_value(result).unwrap(), expected);
    }
}

#[test]
fn a_request_that_was_given_up_tells_of_its_attempts() {
    let attempt = |attempt| Attempt { attempt, worker: "w".into(), end: "its worker died".into() };
    let result = ExecutionResult::gave_up(&id(), vec![attempt(1)], "its worker died");
    assert_eq!(result.summary, "Gave up after 1 attempt: its worker died");
    let result = ExecutionResult::gave_up(&id(), vec![attempt(1), attempt(2)], "its worker died");
    assert_eq!(result.summary, "Gave up after 2 attempts: its worker died");
    let json = serde_json::to_value(&result).unwrap();
    assert_eq!(json["attempts"][1], json!({"attempt": 2, "worker": "w", "end": "its worker died"}));
    assert_eq!(serde_json::from_value::<ExecutionResult>(json).unwrap(), result);
}

#[test]
fn a_cancelled_request_says_so_and_nothing_else() {
    let json = serde_json::to_value(ExecutionResult::cancelled(&id())).unwrap();
    assert_eq!((&json["status"], &json["summary"]), (&json!("cancelled"), &json!("Cancelled")));
    assert_eq!((&json["error_info"], &json["test_results"]), (&json!(null), &json!([])));
}

#[test]
fn a_result_has_the_names_of_the_contract() {
    let tests = vec![
        test(0, TestStatus::WrongAnswer, None),
        TestResult {
            cpu_time_ms: Some(10),
            exit_code: Some(139),
            signal: Some("SIGSEGV".into()),
            stderr: Some("ouch".into()),
            ..test(1, TestStatus::RuntimeError, Some("killed by SIGSEGV"))
        },
    ];
    let result = ExecutionResult::from_tests(&id(), tests, 77);
    let expected = json!({
        "request_id": "r-1",
        "status": "runtime_error",
        "test_results": [
            {
                "test_id": "t0",
                "status": "wrong_answer",
                "actual_output": "out-0",
                "expected_output": "right",
                "execution_time_ms": 12,
                "memory_used_kb": 3456,
                "error_message": null,
            },
            {
                "test_id": "t1",
                "status": "runtime_error",
                "actual_output": "out-1",
                "expected_output": "right",
                "execution_time_ms": 12,
                "memory_used_kb": 3456,
                "error_message": "killed by SIGSEGV",
                "cpu_time_ms": 10,
                "exit_code": 139,
                "signal": "SIGSEGV",
                "stderr": "ouch",
            },
        ],
        "total_time_ms": 77,
        "compilation_output": null,
        "summary": "0/2 passed. Runtime error: killed by SIGSEGV",
        "error_info": {
            "code": "WRONG_ANSWER",
            "message": "Test t0 failed",
            "stage": "execution",
            "details": "out-0",
        },
    });
    assert_eq!(serde_json::to_value(&result).unwrap(), expected);
    assert_eq!(serde_json::from_value::<ExecutionResult>(expected).unwrap(), result);
}

#[test]
fn a_result_of_an_old_writer_is_read_and_what_a_newer_one_adds_is_ignored() {
    let old = json!({
        "request_id": "r-1",
        "status": "all_passed",
        "test_results": [{
            "test_id": "t0", "status": "passed", "actual_output": "out-0", "expected_output": "right",
            "execution_time_ms": 12, "memory_used_kb": 3456,
        }],
        "total_time_ms": 77,
        "summary": "All 1 test cases passed",
    });
    let expected = fold(&[(TestStatus::Passed, None)]);
    assert_eq!(serde_json::from_value::<ExecutionResult>(old.clone()).unwrap(), expected);

    let mut new = old;
    new["worker"] = json!({"name": "w"});
    new["test_results"][0]["page_faults"] = json!(7);
    assert_eq!(serde_json::from_value::<ExecutionResult>(new).unwrap(), expected);
}

#[test]
fn every_status_has_one_name() {
    for status in TEST_STATUSES {
        assert_eq!(serde_json::to_value(status).unwrap(), status.as_str());
        assert_eq!(serde_json::from_value::<TestStatus>(status.as_str().into()).unwrap(), status);
    }
    for status in STATUSES {
        assert_eq!(serde_json::to_value(status).unwrap(), status.as_str());
        assert_eq!(serde_json::from_value::<ExecutionStatus>(status.as_str().into()).unwrap(), status);
    }
    let names = STATUSES.map(ExecutionStatus::as_str);
    let contract = [
        "all_passed",
        "some_passed",
        "all_failed",
        "compilation_error",
        "runtime_error",
        "timeout",
        "memory_exceeded",
        "output_exceeded",
        "sandbox_error",
    ];
    assert_eq!(names, contract);
    let contract = ["passed", "wrong_answer", "runtime_error", "timeout", "memory_exceeded", "output_exceeded"];
    assert_eq!(TEST_STATUSES.map(TestStatus::as_str), contract);
    assert!(serde_json::from_value::<TestStatus>(Value::from("PASSED")).is_err());
}
