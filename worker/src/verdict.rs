//! From facts to judgement. Nothing else in Tribunal decides what a run was worth.

use std::time::Duration;

use tribunal_shared::check;
use tribunal_shared::request::Test;
use tribunal_shared::result::{TestResult, TestStatus};

use crate::sandbox::{Captured, Exit, Killed, Outcome};

/// What a result keeps of stderr: its end, where the reason stands.
const STDERR_BYTES: usize = 2048;

/// The result of one test. `timeout` is the limit the program was given, on CPU time and on wall time alike.
pub fn of_test(test: &Test, timeout: Duration, outcome: Outcome) -> TestResult {
    let stderr = ending(&outcome.stderr);
    let (status, error_message) = match fault(timeout, &outcome) {
        Some((status @ TestStatus::RuntimeError, what)) if !stderr.trim().is_empty() => {
            (status, Some(format!("{what}\n{}", stderr.trim())))
        }
        Some((status, what)) => (status, Some(what)),
        None if check::matches(&outcome.stdout.bytes, test.expected_output.as_bytes()) => (TestStatus::Passed, None),
        None => (TestStatus::WrongAnswer, None),
    };
    let (exit_code, signal) = match outcome.exit {
        Exit::Code(code) => (Some(code), None),
        Exit::Signal(signal) => (None, Some(signal_name(signal))),
        Exit::NotStarted(_) | Exit::Unknown => (None, None),
    };
    TestResult {
        test_id: test.id.clone(),
        status,
        actual_output: String::from_utf8_lossy(&outcome.stdout.bytes).into_owned(),
        expected_output: test.expected_output.clone(),
        execution_time_ms: outcome.wall.as_millis() as u64,
        memory_used_kb: outcome.peak_memory_bytes / 1024,
        error_message,
        cpu_time_ms: Some(outcome.cpu.as_millis() as u64),
        exit_code,
        signal,
        stderr: (!stderr.is_empty()).then_some(stderr),
    }
}

/// A test for which no time was left.
pub fn out_of_time(test: &Test) -> TestResult {
    TestResult {
        test_id: test.id.clone(),
        status: TestStatus::Timeout,
        actual_output: String::new(),
        expected_output: test.expected_output.clone(),
        execution_time_ms: 0,
        memory_used_kb: 0,
        error_message: Some("Total timeout exceeded".into()),
        cpu_time_ms: None,
        exit_code: None,
        signal: None,
        stderr: None,
    }
}

/// Why a run is worth nothing, whatever it printed; `None` if it came to a good end. The first match wins.
pub fn fault(timeout: Duration, outcome: &Outcome) -> Option<(TestStatus, String)> {
    let truncated = outcome.stdout.truncated || outcome.stderr.truncated;
    if outcome.oom {
        return Some((TestStatus::MemoryExceeded, "Memory limit exceeded".into()));
    }
    if outcome.killed == Some(Killed::WallTime) || outcome.cpu > timeout {
        return Some((TestStatus::Timeout, "Test execution timed out".into()));
    }
    // A program may end before the kill for its flood of output lands.
    if outcome.killed == Some(Killed::Output) || truncated {
        return Some((TestStatus::OutputExceeded, "Output limit exceeded".into()));
    }
    let what = match &outcome.exit {
        Exit::Code(0) => return None,
        Exit::Code(code) => format!("Exit code: {code}"),
        Exit::Signal(signal) => format!("Terminated by signal {}", signal_name(*signal)),
        Exit::NotStarted(reason) => format!("The program could not be started: {reason}"),
        Exit::Unknown => "The program was killed".into(),
    };
    Some((TestStatus::RuntimeError, what))
}

fn ending(stderr: &Captured) -> String {
    let bytes = &stderr.bytes;
    match bytes.len().checked_sub(STDERR_BYTES) {
        None | Some(0) => String::from_utf8_lossy(bytes).into_owned(),
        Some(cut) => format!("…{}", String::from_utf8_lossy(&bytes[cut..])),
    }
}

pub fn signal_name(signal: i32) -> String {
    const NAMES: [&str; 32] = [
        "",
        "SIGHUP",
        "SIGINT",
        "SIGQUIT",
        "SIGILL",
        "SIGTRAP",
        "SIGABRT",
        "SIGBUS",
        "SIGFPE",
        "SIGKILL",
        "SIGUSR1",
        "SIGSEGV",
        "SIGUSR2",
        "SIGPIPE",
        "SIGALRM",
        "SIGTERM",
        "SIGSTKFLT",
        "SIGCHLD",
        "SIGCONT",
        "SIGSTOP",
        "SIGTSTP",
        "SIGTTIN",
        "SIGTTOU",
        "SIGURG",
        "SIGXCPU",
        "SIGXFSZ",
        "SIGVTALRM",
        "SIGPROF",
        "SIGWINCH",
        "SIGIO",
        "SIGPWR",
        "SIGSYS",
    ];
    match usize::try_from(signal).ok().and_then(|number| NAMES.get(number)) {
        Some(name) if !name.is_empty() => (*name).to_owned(),
        _ => format!("signal {signal}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(1);

    fn outcome() -> Outcome {
        Outcome {
            exit: Exit::Code(0),
            wall: Duration::from_millis(20),
            cpu: Duration::from_millis(10),
            peak_memory_bytes: 4096,
            oom: false,
            killed: None,
            stdout: Captured { bytes: b"right\n".to_vec(), truncated: false },
            stderr: Captured::default(),
        }
    }

    fn result(outcome: Outcome) -> TestResult {
        let test = Test { id: "t".into(), input: String::new(), expected_output: "right".into(), timeout: LIMIT };
        of_test(&test, LIMIT, outcome)
    }

    fn stderr(text: &[u8]) -> Captured {
        Captured { bytes: text.to_vec(), truncated: false }
    }

    #[test]
    fn each_fact_has_its_judgement_and_the_gravest_wins() {
        use TestStatus::*;
        let over = LIMIT + Duration::from_millis(1);
        let cut = Captured { bytes: b"right".to_vec(), truncated: true };
        for (outcome, expected) in [
            (outcome(), Passed),
            (Outcome { stdout: stderr(b"wrong"), ..outcome() }, WrongAnswer),
            (Outcome { exit: Exit::Code(1), ..outcome() }, RuntimeError),
            (Outcome { exit: Exit::Signal(11), ..outcome() }, RuntimeError),
            (Outcome { exit: Exit::NotStarted("x".into()), ..outcome() }, RuntimeError),
            (Outcome { cpu: over, ..outcome() }, Timeout),
            (Outcome { cpu: LIMIT, ..outcome() }, Passed),
            (Outcome { wall: over, ..outcome() }, Passed),
            (Outcome { killed: Some(Killed::WallTime), exit: Exit::Unknown, ..outcome() }, Timeout),
            (Outcome { killed: Some(Killed::Output), exit: Exit::Unknown, ..outcome() }, OutputExceeded),
            (Outcome { stdout: cut.clone(), ..outcome() }, OutputExceeded),
            (Outcome { stderr: cut.clone(), ..outcome() }, OutputExceeded),
            (Outcome { oom: true, ..outcome() }, MemoryExceeded),
            (Outcome { oom: true, killed: Some(Killed::WallTime), cpu: over, ..outcome() }, MemoryExceeded),
            (Outcome { killed: Some(Killed::Output), cpu: over, ..outcome() }, Timeout),
            (Outcome { exit: Exit::Code(1), stdout: cut, ..outcome() }, OutputExceeded),
        ] {
            assert_eq!(result(outcome.clone()).status, expected, "{outcome:?}");
        }
    }

    #[test]
    fn exit_codes_and_texts_that_look_like_something_else_are_what_they_are() {
        for code in [124, 137, 139, 143, 255] {
            let result = result(Outcome { exit: Exit::Code(code), ..outcome() });
            assert_eq!((result.status, result.exit_code, result.signal), (TestStatus::RuntimeError, Some(code), None));
        }
        let lying = Outcome { stderr: stderr(b"Execution timed out\nMemory limit exceeded"), ..outcome() };
        assert_eq!(result(lying).status, TestStatus::Passed);
    }

    #[test]
    fn a_runtime_error_names_its_signal_or_code_and_what_stderr_says() {
        let crashed = result(Outcome { exit: Exit::Signal(11), stderr: stderr(b"  oh no\n"), ..outcome() });
        assert_eq!(crashed.signal.as_deref(), Some("SIGSEGV"));
        assert_eq!(crashed.error_message.as_deref(), Some("Terminated by signal SIGSEGV\noh no"));
        let failed = result(Outcome { exit: Exit::Code(3), ..outcome() });
        assert_eq!(failed.error_message.as_deref(), Some("Exit code: 3"));
        assert_eq!(signal_name(34), "signal 34");
        assert_eq!(signal_name(-1), "signal -1");
    }

    #[test]
    fn a_long_stderr_keeps_its_end() {
        let long = [vec![b'x'; 10_000], b"the reason".to_vec()].concat();
        let kept = result(Outcome { exit: Exit::Code(1), stderr: stderr(&long), ..outcome() }).stderr.unwrap();
        assert!(
            kept.starts_with('…') && kept.ends_with("the reason") && kept.len() <= STDERR_BYTES + 4,
            "{}",
            kept.len()
        );
    }
}
