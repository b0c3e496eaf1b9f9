//! A result: what was found about each test, and the fold of all tests into one answer.

use serde::{Deserialize, Serialize};

use crate::request::{Rejection, RequestId};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExecutionResult {
    pub request_id: String,
    pub status: ExecutionStatus,
    pub test_results: Vec<TestResult>,
    pub total_time_ms: u64,
    #[serde(default)]
    pub compilation_output: Option<String>,
    pub summary: String,
    #[serde(default)]
    pub error_info: Option<ExecutionError>,
    /// Of a request that was given up: what became of each attempt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<Attempt>,
}

/// One time that a worker began a request and did not finish it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    pub attempt: u32,
    pub worker: String,
    /// Why it came to nothing.
    pub end: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExecutionStatus {
    AllPassed,
    SomePassed,
    AllFailed,
    CompilationError,
    RuntimeError,
    Timeout,
    MemoryExceeded,
    OutputExceeded,
    /// Ours, or the request's: never a judgement on the program.
    SandboxError,
    /// Its caller wanted no result any more.
    Cancelled,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TestResult {
    pub test_id: String,
    pub status: TestStatus,
    pub actual_output: String,
    pub expected_output: String,
    /// Wall time of the program alone.
    pub execution_time_ms: u64,
    pub memory_used_kb: u64,
    #[serde(default)]
    pub error_message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_time_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The name of the signal that ended the program, such as `SIGSEGV`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TestStatus {
    Passed,
    WrongAnswer,
    RuntimeError,
    Timeout,
    MemoryExceeded,
    OutputExceeded,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExecutionError {
    pub code: String,
    pub message: String,
    /// `compilation`, `execution` or `validation`.
    pub stage: String,
    #[serde(default)]
    pub details: Option<String>,
}

impl TestStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::WrongAnswer => "wrong_answer",
            Self::RuntimeError => "runtime_error",
            Self::Timeout => "timeout",
            Self::MemoryExceeded => "memory_exceeded",
            Self::OutputExceeded => "output_exceeded",
        }
    }
}

impl ExecutionStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AllPassed => "all_passed",
            Self::SomePassed => "some_passed",
            Self::AllFailed => "all_failed",
            Self::CompilationError => "compilation_error",
            Self::RuntimeError => "runtime_error",
            Self::Timeout => "timeout",
            Self::MemoryExceeded => "memory_exceeded",
            Self::OutputExceeded => "output_exceeded",
            Self::SandboxError => "sandbox_error",
            Self::Cancelled => "cancelled",
        }
    }
}

impl ExecutionResult {
    /// Folds the results of all tests into one: some passed, or else the gravest failure names the status.
    pub fn from_tests(id: &RequestId, tests: Vec<TestResult>, total_time_ms: u64) -> Self {
        let total = tests.len();
        let passed = tests.iter().filter(|test| test.status == TestStatus::Passed).count();
        let first = |status| tests.iter().find(|test| test.status == status);

        let status = if total == 0 {
            return Self::failed(
                id,
                total_time_ms,
                "No test cases were executed".into(),
                ExecutionError::new("NO_TESTS", "No test results produced", "execution"),
            );
        } else if passed == total {
            ExecutionStatus::AllPassed
        } else if passed > 0 {
            ExecutionStatus::SomePassed
        } else if first(TestStatus::Timeout).is_some() {
            ExecutionStatus::Timeout
        } else if first(TestStatus::MemoryExceeded).is_some() {
            ExecutionStatus::MemoryExceeded
        } else if first(TestStatus::OutputExceeded).is_some() {
            ExecutionStatus::OutputExceeded
        } else if first(TestStatus::RuntimeError).is_some() {
            ExecutionStatus::RuntimeError
        } else {
            ExecutionStatus::AllFailed
        };

        let summary = match (status, first(TestStatus::RuntimeError)) {
            (ExecutionStatus::AllPassed, _) => format!("All {total} test cases passed"),
            (ExecutionStatus::RuntimeError, Some(test)) => {
                format!(
                    "{passed}/{total} passed. Runtime error: {}",
                    test.error_message.as_deref().unwrap_or("unknown")
                )
            }
            _ => format!("{passed}/{total} test cases passed"),
        };

        let error_info = match status {
            ExecutionStatus::AllPassed | ExecutionStatus::SomePassed => None,
            _ => tests.iter().find(|test| test.status != TestStatus::Passed).map(|test| ExecutionError {
                code: test.status.as_str().to_uppercase(),
                message: test.error_message.clone().unwrap_or_else(|| format!("Test {} failed", test.test_id)),
                stage: "execution".into(),
                details: (!test.actual_output.is_empty()).then(|| test.actual_output.chars().take(500).collect()),
            }),
        };

        Self {
            request_id: id.to_string(),
            status,
            test_results: tests,
            total_time_ms,
            compilation_output: None,
            summary,
            error_info,
            attempts: Vec::new(),
        }
    }

    /// The compiler said no. `message` is what it said, `stdout` what it printed beside that.
    pub fn compilation_error(id: &RequestId, message: String, stdout: String, total_time_ms: u64) -> Self {
        Self {
            status: ExecutionStatus::CompilationError,
            compilation_output: Some(message.clone()),
            ..Self::failed(
                id,
                total_time_ms,
                format!("Compilation failed: {message}"),
                ExecutionError {
                    details: (!stdout.is_empty()).then_some(stdout),
                    ..ExecutionError::new("COMPILATION_ERROR", &message, "compilation")
                },
            )
        }
    }

    /// The request itself is at fault.
    pub fn rejected(id: &RequestId, rejection: &Rejection) -> Self {
        match rejection {
            Rejection::Invalid(_) => Self::invalid(id, &rejection.to_string()),
            Rejection::UnsupportedLanguage(language) => Self::failed(
                id,
                0,
                format!("Unsupported language: {language}"),
                ExecutionError::new(
                    "UNSUPPORTED_LANGUAGE",
                    &format!("Language {language} is not supported"),
                    "validation",
                ),
            ),
        }
    }

    pub fn invalid(id: &RequestId, problem: &str) -> Self {
        let error = ExecutionError::new("VALIDATION_ERROR", problem, "validation");
        Self::failed(id, 0, format!("Validation error: {problem}"), error)
    }

    /// We failed, and trying again did not help.
    pub fn gave_up(id: &RequestId, attempts: Vec<Attempt>, reason: &str) -> Self {
        let error = ExecutionError::new("SANDBOX_ERROR", reason, "execution");
        let times = match attempts.len() {
            1 => "1 attempt".into(),
            number => format!("{number} attempts"),
        };
        Self { attempts, ..Self::failed(id, 0, format!("Gave up after {times}: {reason}"), error) }
    }

    pub fn cancelled(id: &RequestId) -> Self {
        Self {
            request_id: id.to_string(),
            status: ExecutionStatus::Cancelled,
            test_results: Vec::new(),
            total_time_ms: 0,
            compilation_output: None,
            summary: "Cancelled".into(),
            error_info: None,
            attempts: Vec::new(),
        }
    }

    fn failed(id: &RequestId, total_time_ms: u64, summary: String, error: ExecutionError) -> Self {
        Self {
            request_id: id.to_string(),
            status: ExecutionStatus::SandboxError,
            test_results: Vec::new(),
            total_time_ms,
            compilation_output: None,
            summary,
            error_info: Some(error),
            attempts: Vec::new(),
        }
    }
}

impl ExecutionError {
    fn new(code: &str, message: &str, stage: &str) -> Self {
        Self { code: code.into(), message: message.into(), stage: stage.into(), details: None }
    }
}

#[cfg(test)]
mod tests;
