//! `tribunal run`: one program, once, without tests.

use std::io::{self, ErrorKind, IsTerminal as _, Write};

use serde::Serialize;
use tribunal_shared::config::Settings;
use tribunal_shared::request::{Job, RequestId, TestCase};
use tribunal_shared::result::TestStatus;
use tribunal_worker::sandbox::{Exit as ProgramExit, Outcome};
use tribunal_worker::trial::{Trial, signal_name};

use super::args::Run;
use super::exit::{Exit, Failure, complain, note};
use super::progress::Progress;
use super::{embedded, escape, load, output, render};

pub async fn run(arguments: Run, settings: Settings) -> Result<Exit, Failure> {
    let job = job(&arguments, &settings)?;
    let stdin = match &arguments.stdin {
        Some(path) => load::input(path, &settings)?,
        None => Vec::new(),
    };
    let trial = {
        let _progress = Progress::start("running");
        embedded::try_out(&settings, &job, &stdin).await?
    };
    if arguments.json {
        output::print_json(&Report::new(&trial))?;
    } else {
        show(&trial, &job, &settings)?;
    }
    Ok(match trial {
        Trial::Ran { fault: None, .. } => Exit::Success,
        Trial::Ran { .. } | Trial::NotCompiled { .. } => Exit::NotAllPassed,
    })
}

/// Checked as every job is. It needs a test for that, which nobody looks at.
fn job(arguments: &Run, settings: &Settings) -> Result<Job, Failure> {
    let mut request = load::program(&arguments.path, arguments.language.as_deref(), settings)?;
    request.request_id = Some(RequestId::generate().into());
    request.test_cases = vec![TestCase::default()];
    request.timeout_ms = arguments.timeout_ms;
    request.memory_limit_mb = arguments.memory_mb;
    request.cpu_limit = arguments.cpus;
    Job::check(request, &settings.limits, &settings.languages()).map_err(Failure::Rejected)
}

fn show(trial: &Trial, job: &Job, settings: &Settings) -> Result<(), Failure> {
    match trial {
        Trial::NotCompiled { message, stdout } => {
            pass_on(&mut io::stderr().lock(), stdout.as_bytes(), io::stderr().is_terminal())?;
            pass_on(&mut io::stderr().lock(), message.as_bytes(), io::stderr().is_terminal())?;
            complain("compilation failed");
        }
        Trial::Ran { compiler_output, outcome, fault } => {
            let said = compiler_output.as_deref().unwrap_or_default();
            pass_on(&mut io::stderr().lock(), said.as_bytes(), io::stderr().is_terminal())?;
            pass_on(&mut io::stdout().lock(), &outcome.stdout.bytes, io::stdout().is_terminal())?;
            pass_on(&mut io::stderr().lock(), &outcome.stderr.bytes, io::stderr().is_terminal())?;
            if !io::stderr().is_terminal() && !outcome.stderr.bytes.ends_with(b"\n") && !outcome.stderr.bytes.is_empty()
            {
                // What we say ourselves must not look like the end of what it said.
                note("");
            }
            complain(&summary(outcome, fault.as_ref().map(|(status, _)| *status), job, settings));
        }
    }
    Ok(())
}

/// To a file or a pipe byte for byte. A terminal obeys control characters, and nobody has read the code that prints them;
/// there they are escaped, and what comes next starts on a line of its own.
fn pass_on(stream: &mut impl Write, bytes: &[u8], to_terminal: bool) -> Result<(), Failure> {
    let written = if to_terminal {
        let text = escape::block(&String::from_utf8_lossy(bytes));
        let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        stream.write_all(text.as_bytes()).and_then(|()| stream.write_all(end.as_bytes()))
    } else {
        stream.write_all(bytes)
    };
    written.and_then(|()| stream.flush()).map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => Failure::ReaderGone,
        _ => Failure::Infrastructure(format!("cannot pass on what the program printed: {error}")),
    })
}

/// How it ended and what it used, on one line.
fn summary(outcome: &Outcome, fault: Option<TestStatus>, job: &Job, settings: &Settings) -> String {
    let limits = job.limits();
    let end = match (fault, &outcome.exit) {
        (Some(TestStatus::Timeout), _) => format!("over its time limit of {} ms", limits.timeout.as_millis()),
        (Some(TestStatus::MemoryExceeded), _) => format!("over its memory limit of {} MB", limits.memory_mb),
        (Some(TestStatus::OutputExceeded), _) => {
            format!("over its output limit of {} KB (sandbox.output_limit_kb)", settings.sandbox.output_limit_kb)
        }
        (_, ProgramExit::Code(code)) => format!("exit code {code}"),
        (_, ProgramExit::Signal(signal)) => format!("ended by {}", signal_name(*signal)),
        (_, ProgramExit::NotStarted(reason)) => format!("could not be started: {reason}"),
        (_, ProgramExit::Unknown) => "was killed".into(),
    };
    let (wall, cpu) = (outcome.wall.as_millis(), outcome.cpu.as_millis());
    format!("{end} · {wall} ms · CPU {cpu} ms · memory {}", render::memory(outcome.peak_memory_bytes / 1024))
}

/// For scripts, with the names that a result has.
#[derive(Serialize)]
struct Report<'a> {
    /// `ok`, `compilation_error`, or the status that a test would have.
    status: &'a str,
    error_message: Option<&'a str>,
    exit_code: Option<i32>,
    signal: Option<String>,
    execution_time_ms: Option<u128>,
    cpu_time_ms: Option<u128>,
    memory_used_kb: Option<u64>,
    stdout: String,
    stderr: String,
    compilation_output: Option<&'a str>,
}

impl<'a> Report<'a> {
    fn new(trial: &'a Trial) -> Self {
        match trial {
            Trial::NotCompiled { message, stdout } => Self {
                status: "compilation_error",
                error_message: Some(message),
                exit_code: None,
                signal: None,
                execution_time_ms: None,
                cpu_time_ms: None,
                memory_used_kb: None,
                stdout: String::new(),
                stderr: String::new(),
                compilation_output: Some(stdout),
            },
            Trial::Ran { compiler_output, outcome, fault } => {
                let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
                Self {
                    status: fault.as_ref().map_or("ok", |(status, _)| status.as_str()),
                    error_message: fault.as_ref().map(|(_, message)| message.as_str()),
                    exit_code: if let ProgramExit::Code(code) = outcome.exit { Some(code) } else { None },
                    signal: if let ProgramExit::Signal(signal) = outcome.exit {
                        Some(signal_name(signal))
                    } else {
                        None
                    },
                    execution_time_ms: Some(outcome.wall.as_millis()),
                    cpu_time_ms: Some(outcome.cpu.as_millis()),
                    memory_used_kb: Some(outcome.peak_memory_bytes / 1024),
                    stdout: text(&outcome.stdout.bytes),
                    stderr: text(&outcome.stderr.bytes),
                    compilation_output: compiler_output.as_deref(),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tribunal_worker::sandbox::Captured;

    use super::*;

    fn passed_on(bytes: &[u8], to_terminal: bool) -> Vec<u8> {
        let mut stream = Vec::new();
        pass_on(&mut stream, bytes, to_terminal).unwrap();
        stream
    }

    #[test]
    fn a_pipe_gets_every_byte_and_a_terminal_no_commands() {
        let bytes = b"\x1b[2J\xff\x00no newline";
        assert_eq!(passed_on(bytes, false), bytes);
        assert_eq!(passed_on(bytes, true), "\\u{1b}[2J\u{fffd}\\0no newline\n".as_bytes());
        assert_eq!(passed_on(b"a line\n", true), b"a line\n");
        assert_eq!(passed_on(b"", true), b"");
    }

    #[test]
    fn the_summary_names_the_limit_that_was_passed() {
        let settings = Settings::defaults();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.py");
        std::fs::write(&path, "x").unwrap();
        let arguments =
            Run { path, stdin: None, language: None, json: false, timeout_ms: Some(700), memory_mb: None, cpus: None };
        let job = job(&arguments, &settings).unwrap();
        let outcome = |exit| Outcome {
            exit,
            wall: Duration::from_micros(12_900),
            cpu: Duration::from_millis(9),
            peak_memory_bytes: 3 << 20,
            oom: false,
            killed: None,
            stdout: Captured::default(),
            stderr: Captured::default(),
        };
        let said = |exit, fault| summary(&outcome(exit), fault, &job, &settings);
        assert_eq!(said(ProgramExit::Code(0), None), "exit code 0 · 12 ms · CPU 9 ms · memory 3.0 MB");
        let killed = |fault| said(ProgramExit::Unknown, Some(fault));
        assert!(killed(TestStatus::Timeout).starts_with("over its time limit of 700 ms · "));
        assert!(killed(TestStatus::MemoryExceeded).starts_with("over its memory limit of 256 MB · "));
        assert!(killed(TestStatus::OutputExceeded).starts_with("over its output limit of 64 KB "));
        let crashed = said(ProgramExit::Signal(11), Some(TestStatus::RuntimeError));
        assert!(crashed.starts_with("ended by SIGSEGV · "), "{crashed}");
    }
}
