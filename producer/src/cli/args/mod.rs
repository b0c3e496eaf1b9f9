//! What can be typed.

mod bench;
mod operate;
mod request;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, Parser, Subcommand};
use tribunal_shared::request::RequestId;

pub use bench::{Bench, BenchKind};
pub use operate::{Cancel, ChosenDead, Dead, DeadCommand, Fleet, ListDead, ShowDead};
pub use request::{RequestArguments, Wait, WaitArguments};

const EXIT_CODES: &str = "\
Exit codes:
  0    all tests passed (or the command did what it should)
  1    judged, and not all tests passed; or cancelled
  2    bad request, unknown id or bad usage
  3    infrastructure: queue, store or sandbox failed
  4    no result yet: queued or running, or the time to wait ran out
  130  interrupted
  141  nobody reads the output any more";

/// Of what only looks.
const EXIT_CODES_OF_LOOKING: &str = "\
Exit codes:
  0    done
  2    bad usage, or there is no such thing
  3    infrastructure: queue, store or sandbox failed
  130  interrupted
  141  nobody reads the output any more";

/// Of what is done to several at once. The gravest of them counts.
const EXIT_CODES_OF_MANY: &str = "\
Exit codes:
  0    done, for all of them
  1    too late for one of them: it was judged already
  2    one of them is not there; or bad usage
  3    infrastructure: queue or store failed
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
  tribunal fleet --watch
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

/// `--wait 5` would be ambiguous beside a path, and is told to be `--wait=5`; `--watch 5` likewise.
fn with_hint(mut error: clap::Error, words: &[OsString]) -> clap::Error {
    let mut pairs = words.iter().zip(words.iter().skip(1)).filter_map(|(flag, word)| flag.to_str().zip(word.to_str()));
    let timed = pairs.find(|(flag, word)| ["--wait", "--watch"].contains(flag) && word.parse::<u64>().is_ok());
    if let Some((flag, seconds)) = timed.filter(|_| error.kind() == ErrorKind::UnknownArgument) {
        let hint = format!("for {seconds} seconds, write '{flag}={seconds}'");
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
{{\"request_id\": …, \"state\": …}}, where state is queued, running or (with exit code 2) unknown.

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
    /// Stop requests that are queued or running, anywhere in the fleet
    #[command(after_help = format!("\
A cancelled request gets the result `cancelled`. If it runs, its worker stops it within a second; if
it is queued, it is never begun, but counts as waiting until a worker has looked at it. What has a
result already keeps it. What another AMQP client published is known once a worker has it.

As JSON, a list of {{\"request_id\": …, \"outcome\": …}}, where outcome is cancelled, already_cancelled,
already_judged (and status says how) or unknown.

Examples:
  tribunal cancel homework-7:alice
  tribunal cancel $(cat ids.txt)
  tribunal cancel homework-7:alice homework-7:bob --json | jq -r '.[].outcome'

{EXIT_CODES_OF_MANY}"))]
    Cancel(Cancel),
    /// Show the workers, and what waits for them
    #[command(after_help = format!("\
A worker is heard of several times a second. One that fell silent is lost: its requests run
elsewhere, and it is shown for ten minutes more. One that is not ready says why, and takes nothing
meanwhile.

With --watch the picture is drawn anew on a terminal; Ctrl-C ends it, with exit code 0.

Examples:
  tribunal fleet
  tribunal fleet --watch
  tribunal fleet --watch=10 --json | jq --unbuffered .waiting
  tribunal fleet --json | jq '.workers[] | select(.alive | not) | .name'

{EXIT_CODES_OF_LOOKING}"))]
    Fleet(Fleet),
    /// Look at requests that were given up, bring them back or take them away
    #[command(after_help = format!("\
A request that could not be judged, whoever tried, is answered with `sandbox_error` and put aside
as a dead letter. When the cause is mended, requeue it.

Examples:
  tribunal dead ls
  tribunal dead show homework-7:alice
  tribunal dead requeue homework-7:alice
  tribunal dead requeue --all
  tribunal dead drop --all

{EXIT_CODES_OF_MANY}"))]
    Dead(Dead),
    /// List what can be judged, on what it runs and in which version
    #[command(after_help = format!("\
Versions are asked of the toolchains themselves, in the sandbox. Nothing is pulled for that: a
language whose image or toolchain is not here says so in place of its version.

Examples:
  tribunal languages
  tribunal languages --offline
  tribunal languages --json | jq -r '.[].name'

{EXIT_CODES_OF_LOOKING}"))]
    Languages(Languages),
    /// Check what works here and what does not, each with its remedy
    #[command(after_help = format!("\
Looks at the queue, the store and the sandbox, all at the same time and each for at most 5 seconds.

Examples:
  tribunal doctor
  tribunal doctor --queue-url amqp://rabbit.example.org
  tribunal doctor --json | jq '.[] | select(.ok | not)'

{EXIT_CODES_OF_LOOKING}"))]
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

{EXIT_CODES_OF_LOOKING}"))]
    Bench(Bench),
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

#[cfg(test)]
mod tests;
