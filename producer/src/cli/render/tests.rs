use tribunal_shared::request::{Rejection, RequestId};

use super::*;

fn test(id: &str, status: TestStatus) -> TestResult {
    TestResult {
        test_id: id.into(),
        status,
        actual_output: String::new(),
        expected_output: String::new(),
        execution_time_ms: 12,
        memory_used_kb: 9523,
        error_message: None,
        cpu_time_ms: Some(10),
        exit_code: Some(0),
        signal: None,
        stderr: None,
    }
}

fn rendered(tests: Vec<TestResult>) -> String {
    result(&ExecutionResult::from_tests(&RequestId::generate(), tests, 30), false)
}

#[test]
fn passed_tests_are_a_table_and_a_summary() {
    let text = rendered(vec![test("test_1", TestStatus::Passed), test("a_longer_name", TestStatus::Passed)]);
    let expected = "\
TEST           STATUS   TIME  MEMORY
test_1         passed  12 ms  9.3 MB
a_longer_name  passed  12 ms  9.3 MB

All 2 test cases passed
";
    assert_eq!(text, expected);
}

#[test]
fn a_wrong_answer_shows_where_it_differs() {
    let wrong = TestResult {
        expected_output: "1\n2\n".into(),
        actual_output: "1\n\x1b[2J3\n".into(),
        ..test("t", TestStatus::WrongAnswer)
    };
    let text = rendered(vec![test("s", TestStatus::Passed), wrong]);
    assert!(text.contains("t: wrong_answer at line 2\n  expected | 2\n  actual   | \\u{1b}[2J3\n"), "{text}");
    assert!(text.ends_with("1/2 test cases passed\n"), "{text}");
}

#[test]
fn a_missing_line_is_told_from_an_empty_one() {
    let wrong = TestResult { expected_output: "1".into(), ..test("t", TestStatus::WrongAnswer) };
    let text = rendered(vec![wrong]);
    assert!(text.contains("expected | 1\n  actual   (no such line)\n"), "{text}");
}

#[test]
fn a_runtime_error_shows_its_message_and_the_end_of_stderr() {
    let crashed = TestResult {
        error_message: Some("exit code 1\nmore".into()),
        stderr: Some((0..20).map(|line| format!("line {line}\n")).collect()),
        ..test("t", TestStatus::RuntimeError)
    };
    let text = rendered(vec![crashed]);
    assert!(text.contains("t: runtime_error: exit code 1\n  stderr:\n    …\n    line 15\n"), "{text}");
    assert!(text.contains("line 19\n") && !text.contains("line 14"), "{text}");
    assert!(text.ends_with("Runtime error: exit code 1\n"), "{text}");
}

#[test]
fn a_compilation_error_shows_what_the_compiler_said() {
    let message = "solution.cpp:1:1: error: \x1b[1mno\x1b[0m\n  int main(\n";
    let uncompiled = ExecutionResult::compilation_error(&RequestId::generate(), message.into(), String::new(), 5);
    let expected = "  solution.cpp:1:1: error: \\u{1b}[1mno\\u{1b}[0m\n    int main(\n\nCompilation failed\n";
    assert_eq!(result(&uncompiled, false), expected);
}

#[test]
fn many_failures_are_counted() {
    let text = rendered((0..10).map(|n| test(&n.to_string(), TestStatus::Timeout)).collect());
    assert_eq!(text.matches(": timeout").count(), EXPLAINED);
    assert!(text.contains("… and 7 more failed tests"), "{text}");
}

#[test]
fn a_rejection_shows_its_reason() {
    let rejected =
        ExecutionResult::rejected(&RequestId::generate(), &Rejection::UnsupportedLanguage("co\x1bbol".into()));
    assert_eq!(result(&rejected, false), "Unsupported language: co\\u{1b}bol\n");
}

#[test]
fn nothing_in_a_result_can_drive_the_terminal() {
    let evil = "\x1b]0;evil\x07\u{202e}\r\u{9b}";
    let hostile = |status| TestResult {
        actual_output: evil.into(),
        expected_output: "fine".into(),
        error_message: Some(evil.into()),
        stderr: Some(evil.into()),
        ..test(evil, status)
    };
    let statuses = [TestStatus::WrongAnswer, TestStatus::RuntimeError, TestStatus::Timeout];
    let mut all = ExecutionResult::from_tests(&RequestId::generate(), statuses.map(hostile).into(), 1);
    all.summary = evil.into();
    all.compilation_output = Some(evil.into());
    let text = result(&all, false);
    assert!(text.chars().all(|c| c == '\n' || !c.is_control() && c != '\u{202e}'), "{text:?}");
}

#[test]
fn colours_come_only_when_asked_for() {
    let one = ExecutionResult::from_tests(&RequestId::generate(), vec![test("t", TestStatus::Passed)], 1);
    assert!(!result(&one, false).contains('\x1b'));
    assert!(result(&one, true).contains("\x1b["));
    assert!(result(&one, true).ends_with("All 1 test cases passed\n"));
}

#[test]
fn what_was_given_up_shows_its_attempts() {
    let attempt = |attempt, end: &str| Attempt { attempt, worker: "w\x1b".into(), end: end.into() };
    let attempts = vec![attempt(1, "its worker died"), attempt(2, "no daemon\nforged")];
    let given_up = ExecutionResult::gave_up(&RequestId::generate(), attempts, "no daemon");
    let expected = "\
Gave up after 2 attempts: no daemon

attempts
  1 on w\\u{1b}: its worker died
  2 on w\\u{1b}: no daemon
";
    assert_eq!(result(&given_up, false), expected);
}

#[test]
fn a_cancelled_request_says_so() {
    assert_eq!(result(&ExecutionResult::cancelled(&RequestId::generate()), false), "Cancelled\n");
}
