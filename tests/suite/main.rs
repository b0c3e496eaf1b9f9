//! Holds a sandbox to its promises, in one process and without any service but the sandbox itself, so that it can run in
//! a bare virtual machine too. `tests/run contract` and `tests/run hostile` run it on both sandboxes.
#![allow(clippy::unwrap_used)]

mod contract;
mod ground;
mod hostile;
mod plants;
mod program;
mod report;
mod soak;
mod traces;
mod weakened;
mod world;

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use clap::{Parser, Subcommand, ValueEnum};
use tribunal_worker::sandbox::native;

use plants::SECRET_VARIABLE;
use report::Report;
use world::Kind;

#[derive(Parser)]
#[command(name = "suite", about = "Holds a sandbox to its promises")]
struct Arguments {
    #[command(subcommand)]
    suite: Suite,
}

#[derive(Subcommand)]
enum Suite {
    /// What the `Sandbox` trait promises
    Contract {
        #[command(flatten)]
        subject: Subject,
        /// Only promises whose name contains this
        #[arg(long, value_name = "TEXT")]
        only: Option<String>,
    },
    /// Programs that mean harm, each with its verdict
    Hostile {
        #[command(flatten)]
        subject: Subject,
        /// Only programs with one of these tags
        #[arg(long, value_name = "TAG")]
        tag: Vec<String>,
        /// Only programs whose name contains this
        #[arg(long, value_name = "TEXT")]
        only: Option<String>,
        /// Print their names and verdicts instead of running them
        #[arg(long)]
        list: bool,
    },
    /// Many runs in a row on the native sandbox: nothing may grow
    Soak {
        #[arg(long, default_value_t = 20_000)]
        runs: usize,
    },
    /// The native sandbox with one defence switched off at a time: each loss must be noticed
    Weakened {
        /// Only defences whose name contains this
        #[arg(long, value_name = "TEXT")]
        only: Option<String>,
    },
}

#[derive(clap::Args)]
struct Subject {
    #[arg(long, value_enum)]
    sandbox: Sandbox,
    /// What the native sandbox's programs see: host, image or a folder
    #[arg(long, default_value = "host")]
    root: String,
}

#[derive(Clone, Copy, ValueEnum)]
enum Sandbox {
    Docker,
    Native,
}

impl Subject {
    fn kind(self) -> Kind {
        match self.sandbox {
            Sandbox::Docker => Kind::Docker,
            Sandbox::Native => Kind::Native { root: self.root },
        }
    }
}

fn main() -> ExitCode {
    native::serve_if_zygote();
    let arguments = Arguments::parse();
    if std::env::var_os(SECRET_VARIABLE).is_none() {
        // Once more, with a secret in the environment that this process is born with, and a descriptor that is inherited.
        let failed = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 9</dev/null"])
            .arg(std::env::current_exe().expect("this program's path"))
            .args(std::env::args_os().skip(1))
            .env(SECRET_VARIABLE, plants::new_secret())
            .exec();
        eprintln!("suite: cannot start itself again: {failed}");
        return ExitCode::from(3);
    }
    tribunal_shared::telemetry::init("error", None);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let report = runtime.block_on(run(arguments.suite));
    report.conclude()
}

async fn run(suite: Suite) -> Report {
    match suite {
        Suite::Contract { subject, only } => contract::run(&subject.kind(), only.as_deref()).await,
        Suite::Hostile { subject, tag, only, list } => {
            let chosen = program::choose(&tag, only.as_deref());
            if list { hostile::list(&chosen) } else { hostile::run(&subject.kind(), &chosen).await }
        }
        Suite::Soak { runs } => soak::run(runs).await,
        Suite::Weakened { only } => weakened::run(only.as_deref()).await,
    }
}
