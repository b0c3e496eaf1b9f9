//! What to measure.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde::Serialize;

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
