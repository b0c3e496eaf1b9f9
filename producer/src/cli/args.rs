//! What can be typed.

use std::ffi::OsString;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, Parser, Subcommand, ValueEnum};
use serde::Serialize;
use tribunal_shared::request::RequestId;

const EXIT_CODES: &str = "\
Exit codes:
  0    all tests passed (or the command did what it should)
  1    judged, and not all tests passed
  2    bad request or bad usage
  3    infrastructure: queue, store or sandbox failed
  4    no result yet: queued or running, or the time to wait ran out
  130  interrupted
  141  nobody reads the output any more";

const ABOUT_PATHS: &str = "\
PATH is one of
  a folder       with solution.EXT (or a single source file of any name), tests/NAME.in and
                 tests/NAME.out (or .ans)
  a source file  with --tests DIR, which holds NAME.in and NAME.out (or .ans)
  a request      as JSON; - reads it from stdin";

#[derive(Debug, Parser)]
#[command(
    name = "tribunal",
    version,
    about = "Judges code: compiles it, runs it against tests in a sandbox, says what it found",
    max_term_width = 120,
    arg_required_else_help = true,
    after_help = format!("\
Examples:
  tribunal judge examples/two_sum
  tribunal judge Main.java --tests tests --memory-mb 512
  tribunal run solution.py --stdin input.txt
  tribunal submit examples/two_sum --wait
  tribunal doctor

Settings: built-in defaults, then tribunal.toml (in the working folder, or where --config or
TRIBUNAL_CONFIG says), then the environment (TRIBUNAL_QUEUE__URL sets queue.url), then flags.

{EXIT_CODES}")
)]
pub struct Arguments {
    #[command(flatten)]
    pub settings: SettingsArguments,
    #[command(subcommand)]
    pub command: Command,
}

impl Arguments {
    /// Parses what was typed, or ends with what is wrong with it.
    pub fn parse_or_exit() -> Self {
        let words: Vec<_> = std::env::args_os().collect();
        Self::try_parse_from(&words).unwrap_or_else(|error| with_hint(error, &words).exit())
    }
}

/// `--wait 5` would be ambiguous beside a path, and is told to be `--wait=5`.
fn with_hint(mut error: clap::Error, words: &[OsString]) -> clap::Error {
    let seconds = words.iter().skip_while(|word| *word != "--wait").nth(1).and_then(|word| word.to_str());
    if let Some(seconds) =
        seconds.filter(|word| error.kind() == ErrorKind::UnknownArgument && word.parse::<u64>().is_ok())
    {
        let hint = format!("to wait for {seconds} seconds, write '--wait={seconds}'");
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![hint.into()]));
    }
    error
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Settings")]
pub struct SettingsArguments {
    /// Settings file, instead of tribunal.toml in the working folder
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Where the queue is: amqp://user:password@host:port/vhost
    #[arg(long, global = true, value_name = "URL")]
    pub queue_url: Option<String>,
    /// Where the results are: redis://:password@host:port/database
    #[arg(long, global = true, value_name = "URL")]
    pub store_url: Option<String>,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Judge here, in this one process, without queue and store
    #[command(after_help = format!("\
{ABOUT_PATHS}

Examples:
  tribunal judge examples/two_sum
  tribunal judge solution.py --tests tests --timeout-ms 2000
  tribunal judge --json request.json | jq .status
  generate-request | tribunal judge -

{EXIT_CODES}"))]
    Judge(Judge),
    /// Run a program here, without tests, and say what it used
    #[command(after_help = format!("\
PATH is a source file, or a folder with solution.EXT (or a single source file of any name).

The program runs as a test does: same sandbox, same limits, same bounded output, which is shown when
the program has ended. Its stdout goes to stdout and its stderr to stderr, byte for byte; only on a
terminal are control characters shown as escapes, because nobody has read this code and a terminal
obeys them. What it used is said on stderr.

Examples:
  tribunal run solution.py
  tribunal run solution.cpp --stdin input.txt > output.txt
  echo 3 4 | tribunal run add.rs --stdin -
  tribunal run slow.py --timeout-ms 60000 --json | jq .cpu_time_ms

Exit codes:
  0    the program ended with exit code 0
  1    it did not: another exit code, a signal, a limit, or it could not be compiled
  2    bad usage
  3    infrastructure: the sandbox failed, or the toolchain is missing
  130  interrupted
  141  nobody reads the output any more"))]
    Run(Run),
    /// Put a request on the queue and print its id
    #[command(after_help = format!("\
{ABOUT_PATHS}

Submitting the same request under the same id again is safe: it is judged once.

Examples:
  tribunal submit examples/two_sum
  tribunal submit examples/two_sum --wait
  tribunal submit request.json --id homework-7:alice --wait=60 --json

{EXIT_CODES}"))]
    Submit(Submit),
    /// Print the result of a request, or how far it is
    #[command(after_help = format!("\
Without --wait, a request that is queued or running prints just that, with exit code 4; as JSON,
{{\"request_id\": …, \"state\": …}}, where state is queued, running or unknown.

Examples:
  tribunal result 01890a5d-ac96-774b-bcce-b302099a8057
  tribunal result homework-7:alice --wait
  tribunal result homework-7:alice --wait=60 --json

{EXIT_CODES}"))]
    Result(ShowResult),
    /// Follow a request, test by test
    #[command(after_help = format!("\
Examples:
  tribunal watch 01890a5d-ac96-774b-bcce-b302099a8057
  tribunal watch \"$(tribunal submit examples/two_sum)\"

{EXIT_CODES}"))]
    Watch(Watch),
    /// List what can be judged, on what it runs and in which version
    #[command(after_help = format!("\
Versions are asked of the toolchains themselves, in the sandbox. Nothing is pulled for that: a
language whose image or toolchain is not here says so in place of its version.

Examples:
  tribunal languages
  tribunal languages --offline
  tribunal languages --json | jq -r '.[].name'

{EXIT_CODES}"))]
    Languages(Languages),
    /// Check what works here and what does not, each with its remedy
    #[command(after_help = format!("\
Looks at the queue, the store and the sandbox, all at the same time and each for at most 5 seconds.

Examples:
  tribunal doctor
  tribunal doctor --queue-url amqp://rabbit.example.org
  tribunal doctor --json | jq '.[] | select(.ok | not)'

{EXIT_CODES}"))]
    Doctor(Doctor),
    /// Measure what a run costs here: bare, in our sandboxes, and in others that are installed
    #[command(after_help = format!("\
The program is a static one that returns 0, the same bytes for all. All kinds take turns in every
round, so that whatever else the machine does hits all alike; the ratios are medians of what each
round saw. native and docker go through the sandbox as a test does. CPU is that of the whole
machine (/proc/stat) while a kind was running: measure on a quiet one.

Examples:
  tribunal bench
  tribunal bench --quick --only native,docker
  tribunal bench --rounds 30 --svg cost.svg
  tribunal bench --json | jq '.kinds[] | select(.kind == \"native\") | .back_to_back'

{EXIT_CODES}"))]
    Bench(Bench),
}

#[derive(Debug, Args)]
pub struct Bench {
    /// Rounds; more give steadier numbers
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Fewer and shorter rounds: a first impression in seconds
    #[arg(long, conflicts_with = "rounds")]
    pub quick: bool,
    /// Kinds to measure, instead of all; bare is always among them
    #[arg(long, value_name = "KIND,...", value_delimiter = ',')]
    pub only: Vec<BenchKind>,
    /// Also draw a chart
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// A way to run a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BenchKind {
    /// posix_spawn and wait, no sandbox at all
    Bare,
    /// Our native sandbox
    Native,
    /// Our Docker sandbox
    Docker,
    /// isolate: init, run and cleanup
    Isolate,
    /// Bubblewrap
    Bwrap,
    /// runc run
    Runc,
}

impl BenchKind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::Native => "native",
            Self::Docker => "docker",
            Self::Isolate => "isolate",
            Self::Bwrap => "bwrap",
            Self::Runc => "runc",
        }
    }
}

#[derive(Debug, Args)]
pub struct Judge {
    #[command(flatten)]
    pub request: RequestArguments,
    /// Print the result as JSON, and nothing else
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Run {
    /// What to run: a source file, or a folder with one
    pub path: PathBuf,
    /// What the program reads; - is what we read ourselves. Without it, nothing
    #[arg(long, value_name = "FILE")]
    pub stdin: Option<PathBuf>,
    /// Language of the source, instead of what its extension says
    #[arg(long)]
    pub language: Option<String>,
    /// Print what happened as JSON, and nothing else
    #[arg(long)]
    pub json: bool,
    /// Time limit
    #[arg(long, value_name = "MS", help_heading = "Limits")]
    pub timeout_ms: Option<i64>,
    /// Memory limit
    #[arg(long, value_name = "MB", help_heading = "Limits")]
    pub memory_mb: Option<i64>,
    /// CPU cores that the program may use
    #[arg(long, value_name = "N", help_heading = "Limits")]
    pub cpus: Option<f64>,
}

#[derive(Debug, Args)]
pub struct Submit {
    #[command(flatten)]
    pub request: RequestArguments,
    #[command(flatten)]
    pub wait: WaitArguments,
    /// With --wait: print the result as JSON, and nothing else
    #[arg(long, requires = "wait")]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct ShowResult {
    /// The request's id
    pub id: RequestId,
    #[command(flatten)]
    pub wait: WaitArguments,
    /// Print the result as JSON, and nothing else
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Watch {
    /// The request's id
    pub id: RequestId,
}

#[derive(Debug, Args)]
pub struct Languages {
    /// Do not ask the sandbox for versions
    #[arg(long)]
    pub offline: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Doctor {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct WaitArguments {
    /// Wait for the result, for at most so many seconds if a number is given
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true)]
    wait: Option<Option<NonZeroU64>>,
}

/// Whether to wait for a result, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    No,
    Forever,
    For(Duration),
}

impl WaitArguments {
    pub fn wait(&self) -> Wait {
        match self.wait {
            None => Wait::No,
            Some(None) => Wait::Forever,
            Some(Some(seconds)) => Wait::For(Duration::from_secs(seconds.get())),
        }
    }
}

/// A request, and what flags change of it.
#[derive(Debug, Default, Args)]
pub struct RequestArguments {
    /// What to judge: a folder, a source file or a request as JSON (see below)
    pub path: PathBuf,
    /// Folder with the tests
    #[arg(long, value_name = "DIR")]
    pub tests: Option<PathBuf>,
    /// Language of the source, instead of what its extension says
    #[arg(long)]
    pub language: Option<String>,
    /// Request id; made up if absent
    #[arg(long)]
    pub id: Option<String>,
    /// Time limit of a test
    #[arg(long, value_name = "MS", help_heading = "Limits")]
    pub timeout_ms: Option<i64>,
    /// Time limit of all tests together
    #[arg(long, value_name = "MS", help_heading = "Limits")]
    pub total_timeout_ms: Option<i64>,
    /// Memory limit of a test
    #[arg(long, value_name = "MB", help_heading = "Limits")]
    pub memory_mb: Option<i64>,
    /// CPU cores that a test may use
    #[arg(long, value_name = "N", help_heading = "Limits")]
    pub cpus: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_sound() {
        use clap::CommandFactory as _;
        Arguments::command().debug_assert();
    }

    fn submit(words: &[&str]) -> Submit {
        let words = ["tribunal", "submit", "x"].iter().chain(words);
        match Arguments::try_parse_from(words).unwrap().command {
            Command::Submit(submit) => submit,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn wait_takes_seconds_only_after_an_equals_sign() {
        assert_eq!(submit(&[]).wait.wait(), Wait::No);
        assert_eq!(submit(&["--wait"]).wait.wait(), Wait::Forever);
        assert_eq!(submit(&["--wait=7"]).wait.wait(), Wait::For(Duration::from_secs(7)));
        assert!(Arguments::try_parse_from(["tribunal", "submit", "x", "--wait", "7"]).is_err());
        assert!(Arguments::try_parse_from(["tribunal", "submit", "x", "--wait=0"]).is_err());
    }

    #[test]
    fn seconds_after_a_space_are_told_to_come_after_an_equals_sign() {
        let error = |words: &[&str]| {
            let words: Vec<_> = ["tribunal", "result", "x"].iter().chain(words).map(OsString::from).collect();
            with_hint(Arguments::try_parse_from(&words).unwrap_err(), &words).to_string()
        };
        assert!(error(&["--wait", "7"]).contains("write '--wait=7'"), "{}", error(&["--wait", "7"]));
        assert!(!error(&["--wait", "--jsn"]).contains("--wait="));
        assert!(!error(&["7"]).contains("--wait="));
    }

    #[test]
    fn json_of_a_submission_needs_a_result_to_print() {
        assert!(submit(&["--wait", "--json"]).json);
        assert!(Arguments::try_parse_from(["tribunal", "submit", "x", "--json"]).is_err());
    }

    #[test]
    fn settings_may_stand_before_and_after_the_command() {
        for words in [["--queue-url", "memory://", "doctor"], ["doctor", "--queue-url", "memory://"]] {
            let arguments = Arguments::try_parse_from(["tribunal"].iter().chain(&words)).unwrap();
            assert_eq!(arguments.settings.queue_url.as_deref(), Some("memory://"));
        }
    }
}
