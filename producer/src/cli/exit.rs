//! How a command ends: its exit code, and what it says when it fails.

use std::io::Write as _;
use std::process::ExitCode;

use tribunal_shared::config::SettingsError;
use tribunal_shared::queue::QueueError;
use tribunal_shared::request::{Problem, Rejection, RequestId};
use tribunal_shared::result::{ExecutionResult, ExecutionStatus};
use tribunal_shared::store::StoreError;

use super::escape;
use super::load::LoadError;
use crate::client::SubmitError;

/// In the order of gravity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exit {
    Success = 0,
    /// Judged; or, to who wanted to stop that, too late.
    NotAllPassed = 1,
    BadRequest = 2,
    Infrastructure = 3,
    NoResultYet = 4,
    Interrupted = 130,
    ReaderGone = 141,
}

impl Exit {
    pub fn of(result: &ExecutionResult) -> Self {
        match result.status {
            ExecutionStatus::AllPassed => Self::Success,
            ExecutionStatus::SandboxError if is_rejection(result) => Self::BadRequest,
            ExecutionStatus::SandboxError => Self::Infrastructure,
            ExecutionStatus::SomePassed
            | ExecutionStatus::AllFailed
            | ExecutionStatus::CompilationError
            | ExecutionStatus::RuntimeError
            | ExecutionStatus::Timeout
            | ExecutionStatus::MemoryExceeded
            | ExecutionStatus::OutputExceeded
            | ExecutionStatus::Cancelled => Self::NotAllPassed,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// The contract has one status for our failures and for bad requests; the stage tells them apart.
fn is_rejection(result: &ExecutionResult) -> bool {
    result.error_info.as_ref().is_some_and(|error| error.stage == "validation")
}

#[derive(Debug)]
pub enum Failure {
    /// The caller can mend it.
    Usage(String),
    /// The request did not pass validation.
    Rejected(Rejection),
    Infrastructure(String),
    /// The time to wait for it ran out.
    NoResultYet(String),
    Interrupted,
    /// Interrupted while a request went its way, which goes on without us.
    StoppedWaiting(RequestId),
    /// Whatever read our output has closed it. There is nothing to say, and nobody to say it to.
    ReaderGone,
}

impl Failure {
    pub fn exit(&self) -> Exit {
        match self {
            Self::Usage(_) | Self::Rejected(_) => Exit::BadRequest,
            Self::Infrastructure(_) => Exit::Infrastructure,
            Self::NoResultYet(_) => Exit::NoResultYet,
            Self::Interrupted | Self::StoppedWaiting(_) => Exit::Interrupted,
            Self::ReaderGone => Exit::ReaderGone,
        }
    }

    pub fn print(&self) {
        match self {
            Self::Usage(message) | Self::Infrastructure(message) | Self::NoResultYet(message) => complain(message),
            Self::Rejected(rejection) => {
                complain("the request is not valid:");
                for Problem { field, message } in problems(rejection) {
                    note(&format!("{field}: {message}"));
                }
            }
            Self::Interrupted => complain("interrupted"),
            Self::StoppedWaiting(id) => {
                complain(&format!("interrupted; ask again with `tribunal result {id} --wait`"));
            }
            Self::ReaderGone => {}
        }
    }
}

fn problems(rejection: &Rejection) -> Vec<Problem> {
    match rejection {
        Rejection::Invalid(problems) => problems.clone(),
        Rejection::UnsupportedLanguage(language) => {
            let message = format!("{language:?} is not supported; `tribunal languages` lists what is");
            vec![Problem { field: "language".into(), message }]
        }
    }
}

/// A line on stderr that says who speaks.
pub fn complain(message: &str) {
    note(&format!("tribunal: {message}"));
}

/// A line on stderr. A closed one is no reason to stop.
pub fn note(message: &str) {
    let _ = writeln!(std::io::stderr(), "{}", escape::block(message));
}

impl From<SettingsError> for Failure {
    fn from(error: SettingsError) -> Self {
        Self::Usage(error.to_string())
    }
}

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Self {
        Self::Usage(error.to_string())
    }
}

impl From<SubmitError> for Failure {
    fn from(error: SubmitError) -> Self {
        match error {
            SubmitError::Rejected(rejection) => Self::Rejected(rejection),
            SubmitError::TooLarge { .. } | SubmitError::Conflict(_) => Self::Usage(error.to_string()),
            SubmitError::Queue(error) => error.into(),
            SubmitError::Store(error) => Self::Infrastructure(error.to_string()),
        }
    }
}

impl From<QueueError> for Failure {
    fn from(error: QueueError) -> Self {
        match error {
            QueueError::UnknownScheme { .. } | QueueError::NoTls { .. } => Self::Usage(error.to_string()),
            _ => Self::Infrastructure(error.to_string()),
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::UnknownScheme { .. } | StoreError::NoTls { .. } => Self::Usage(error.to_string()),
            _ => Self::Infrastructure(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use tribunal_shared::result::{TestResult, TestStatus};

    use super::*;

    fn judged(statuses: &[TestStatus]) -> ExecutionResult {
        let test = |status: &TestStatus| TestResult {
            test_id: "t".into(),
            status: *status,
            actual_output: String::new(),
            expected_output: String::new(),
            execution_time_ms: 1,
            memory_used_kb: 1,
            error_message: None,
            cpu_time_ms: None,
            exit_code: None,
            signal: None,
            stderr: None,
        };
        ExecutionResult::from_tests(&RequestId::generate(), statuses.iter().map(test).collect(), 1)
    }

    #[test]
    fn only_all_passed_is_success() {
        use TestStatus::*;
        assert_eq!(Exit::of(&judged(&[Passed, Passed])), Exit::Success);
        for other in [WrongAnswer, RuntimeError, Timeout, MemoryExceeded, OutputExceeded] {
            assert_eq!(Exit::of(&judged(&[Passed, other])), Exit::NotAllPassed);
            assert_eq!(Exit::of(&judged(&[other])), Exit::NotAllPassed);
        }
        let id = RequestId::generate();
        let uncompiled = ExecutionResult::compilation_error(&id, "no".into(), String::new(), 1);
        assert_eq!(Exit::of(&uncompiled), Exit::NotAllPassed);
    }

    #[test]
    fn a_bad_request_and_our_own_failure_differ() {
        let id = RequestId::generate();
        let unsupported = Rejection::UnsupportedLanguage("cobol".into());
        assert_eq!(Exit::of(&ExecutionResult::rejected(&id, &unsupported)), Exit::BadRequest);
        assert_eq!(Exit::of(&ExecutionResult::invalid(&id, "code: is empty")), Exit::BadRequest);
        assert_eq!(Exit::of(&ExecutionResult::gave_up(&id, Vec::new(), "no daemon")), Exit::Infrastructure);
    }

    #[test]
    fn failures_of_a_submission_say_whose_they_are() {
        let address = || "amqp://host/".to_owned();
        let down = QueueError::Unreachable { what: "RabbitMQ", address: address(), reason: "refused".into() };
        let gone = StoreError::Unreachable { what: "Redis", address: address(), reason: "refused".into() };
        for (error, exit) in [
            (SubmitError::Rejected(Rejection::Invalid(Vec::new())), Exit::BadRequest),
            (SubmitError::Conflict(RequestId::generate()), Exit::BadRequest),
            (SubmitError::TooLarge { bytes: 2, limit: 1 }, Exit::BadRequest),
            (SubmitError::Queue(QueueError::UnknownScheme { address: address() }), Exit::BadRequest),
            (SubmitError::Queue(down), Exit::Infrastructure),
            (SubmitError::Store(gone.into()), Exit::Infrastructure),
        ] {
            let text = error.to_string();
            assert_eq!(Failure::from(error).exit(), exit, "{text}");
        }
    }
}
