//! What a request is made of, and whether to wait for its result.

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use tribunal_shared::request::Priority;

#[derive(Debug, Args)]
pub struct WaitArguments {
    /// Wait for the result, for at most so many seconds if a number is given
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, value_parser = seconds)]
    wait: Option<Option<NonZeroU64>>,
}

pub fn seconds(text: &str) -> Result<NonZeroU64, &'static str> {
    text.parse().map_err(|_| "it takes a whole number of seconds, at least 1")
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
    /// Which requests are served first when there are more than slots
    #[arg(long, value_name = "PRIORITY", value_parser = Priority::ALL.map(Priority::as_str))]
    pub priority: Option<String>,
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
