//! Where untrusted code runs. A sandbox returns facts ([`Outcome`]); what they mean is decided in `verdict`.
//!
//! [`from_config`] is the only place that chooses which one.

mod copy;
pub(crate) mod docker;
mod guest;
pub mod native;
mod output;
mod tenancy;
mod workspace;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tribunal_shared::config::{SandboxKind, Settings};
use tribunal_shared::language::Language;
use tribunal_shared::request::RequestId;

pub use output::Captured;
pub use workspace::{Access, Workspace};

/// Our failure, never the program's: the request is to be tried again.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    #[error("cannot reach {what} at {address}: {reason}. {remedy}")]
    Unreachable { what: &'static str, address: String, reason: String, remedy: &'static str },
    /// The worker cannot keep its promises here, so it does not start.
    #[error("{problem}. {remedy}")]
    Unfit { problem: String, remedy: String },
    #[error("{doing}: {reason}")]
    Failed { doing: String, reason: String },
}

impl SandboxError {
    /// One word, for those who count.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Unreachable { .. } => "unreachable",
            Self::Unfit { .. } => "unfit",
            Self::Failed { .. } => "failed",
        }
    }

    pub(crate) fn failed(doing: impl Into<String>, reason: impl ToString) -> Self {
        Self::Failed { doing: doing.into(), reason: reason.to_string() }
    }
}

/// One program to run, once.
pub struct Invocation<'a> {
    pub request: &'a RequestId,
    pub language: &'a Language,
    pub workspace: &'a Workspace,
    pub access: Access,
    pub command: &'a [String],
    pub environment: &'a BTreeMap<String, String>,
    pub stdin: &'a [u8],
    pub limits: RunLimits,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RunLimits {
    /// The program is killed when it has run for this long.
    pub wall: Duration,
    pub memory_mb: u64,
    pub cpus: f64,
    pub processes: u64,
    pub tmp_mb: u64,
    /// What is kept of each output stream.
    pub output_bytes: usize,
    pub on_overflow: OnOverflow,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnOverflow {
    Kill,
    /// Read on and forget: a compiler with much to say may still succeed.
    Discard,
}

/// What happened, as the kernel and our own timers saw it.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    pub exit: Exit,
    /// Of the program alone, without the making of its sandbox.
    pub wall: Duration,
    pub cpu: Duration,
    pub peak_memory_bytes: u64,
    /// The kernel's OOM killer struck in the run's own cgroup.
    pub oom: bool,
    pub killed: Option<Killed>,
    pub stdout: Captured,
    pub stderr: Captured,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exit {
    Code(i32),
    Signal(i32),
    /// The command could not be executed, for this reason.
    NotStarted(String),
    /// Killed by us or by the kernel together with the one who would have told.
    Unknown,
}

/// Killed by us, for this limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Killed {
    WallTime,
    Output,
    /// What it left in the workspace.
    Disk,
}

#[async_trait]
pub trait Sandbox: Send + Sync {
    /// Makes sure that the language's toolchain is here. Cheap when it is.
    async fn prepare(&self, language: &Language) -> Result<(), SandboxError>;

    /// A folder for one request, with nothing in it. It is removed when dropped.
    async fn workspace(&self, request: &RequestId) -> Result<Workspace, SandboxError>;

    /// Runs the program to its end. Whatever it does is `Ok`. No process of it is left when this returns; the rest is
    /// cleared away beside what comes next, also when this future is dropped half-way.
    async fn run(&self, invocation: Invocation<'_>) -> Result<Outcome, SandboxError>;

    /// Whether sandboxes can be made just now: what all of them need is looked at, no language and no program.
    async fn check(&self) -> Result<(), SandboxError>;

    /// Waits until everything is cleared away.
    async fn settle(&self);
}

/// The configured sandbox, ready to use and able to keep its promises; what a dead worker left is removed.
pub async fn from_config(settings: &Settings) -> Result<Arc<dyn Sandbox>, SandboxError> {
    match settings.sandbox.kind {
        SandboxKind::Native => native::start(settings, &[]).await,
        SandboxKind::Docker => Ok(Arc::new(docker::DockerSandbox::start(&settings.sandbox).await?)),
    }
}

fn host_swaps() -> bool {
    // One line is the heading.
    std::fs::read_to_string("/proc/swaps").is_ok_and(|swaps| swaps.lines().count() > 1)
}

/// One thing that was looked at, and how it was found.
pub struct Finding {
    pub what: String,
    pub found: Result<String, SandboxError>,
}

/// Looks at everything the configured sandbox needs, without changing anything.
pub async fn diagnose(settings: &Settings) -> Vec<Finding> {
    match settings.sandbox.kind {
        SandboxKind::Native => native::diagnose(settings).await,
        SandboxKind::Docker => docker::diagnose(settings).await,
    }
}
