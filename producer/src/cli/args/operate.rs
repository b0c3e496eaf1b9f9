//! What an operator asks of the fleet.

use std::num::NonZeroU64;
use std::time::Duration;

use clap::{Args, Subcommand};
use tribunal_shared::request::RequestId;

use super::request::seconds;
use super::{EXIT_CODES_OF_LOOKING, EXIT_CODES_OF_MANY};

const WATCH_EVERY: Duration = Duration::from_secs(2);

#[derive(Debug, Args)]
pub struct Cancel {
    /// The requests' ids
    #[arg(required = true, value_name = "ID")]
    pub ids: Vec<RequestId>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Fleet {
    /// Look again and again, every 2 seconds or every so many
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, value_parser = seconds)]
    watch: Option<Option<NonZeroU64>>,
    /// Print JSON; with --watch, a line each time
    #[arg(long)]
    pub json: bool,
}

impl Fleet {
    /// The time between two looks, if one is not enough.
    pub fn every(&self) -> Option<Duration> {
        self.watch.map(|seconds| seconds.map_or(WATCH_EVERY, |seconds| Duration::from_secs(seconds.get())))
    }
}

#[derive(Debug, Args)]
pub struct Dead {
    #[command(subcommand)]
    pub command: DeadCommand,
}

#[derive(Debug, Subcommand)]
pub enum DeadCommand {
    /// List the dead letters, the oldest first
    #[command(after_help = format!("\
Examples:
  tribunal dead ls
  tribunal dead ls --json | jq -r '.[].key'

{EXIT_CODES_OF_LOOKING}"))]
    Ls(ListDead),
    /// Show one: why and when it died, what became of each attempt, and what it asks for
    #[command(after_help = format!("\
Examples:
  tribunal dead show homework-7:alice
  tribunal dead show homework-7:alice --code
  tribunal dead show homework-7:alice --json | jq .attempts

{EXIT_CODES_OF_LOOKING}"))]
    Show(ShowDead),
    /// Put them back on their queues, to be judged as if they were new
    #[command(after_help = format!("\
The result that says that a request was given up is forgotten. A request that was judged after all
keeps its result, and its letter stays.

Examples:
  tribunal dead requeue homework-7:alice && tribunal result homework-7:alice --wait
  tribunal dead requeue --all

{EXIT_CODES_OF_MANY}"))]
    Requeue(ChosenDead),
    /// Take them away for good; their results stay
    #[command(after_help = format!("\
Examples:
  tribunal dead drop homework-7:alice
  tribunal dead drop --all

{EXIT_CODES_OF_LOOKING}"))]
    Drop(ChosenDead),
}

#[derive(Debug, Args)]
pub struct ListDead {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct ShowDead {
    /// Its key, as `tribunal dead ls` shows it: the request's id, if it has one
    #[arg(value_name = "ID")]
    pub key: String,
    /// Show the code as well, or the whole message if it is no request
    #[arg(long)]
    pub code: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct ChosenDead {
    /// Their keys, as `tribunal dead ls` shows them: the requests' ids, if they have any
    #[arg(value_name = "ID", required_unless_present = "all", conflicts_with = "all")]
    pub keys: Vec<String>,
    /// All that there are
    #[arg(long)]
    pub all: bool,
}
