//! Compiles the code of a request in its workspace.

use std::time::Duration;

use tribunal_shared::config::SandboxSettings;
use tribunal_shared::language::{Commands, Compile};
use tribunal_shared::request::Job;

use crate::sandbox::{
    Access, Captured, Exit, Invocation, Killed, OnOverflow, Outcome, RunLimits, Sandbox, SandboxError, Workspace,
};

pub enum Compiled {
    /// With what the compiler had to say.
    Program { output: String },
    /// With why it did not, and what it printed to stdout.
    Failed { message: String, stdout: String },
}

impl Compiled {
    pub fn is_program(&self) -> bool {
        matches!(self, Self::Program { .. })
    }
}

/// `Ok(None)` for a language that is not compiled.
pub async fn compile(
    job: &Job,
    commands: &Commands,
    workspace: &Workspace,
    sandbox: &dyn Sandbox,
    settings: &SandboxSettings,
) -> Result<Option<Compiled>, SandboxError> {
    let (Some(command), Some(limits)) = (&commands.compile, &job.language().compile) else {
        return Ok(None);
    };
    let outcome = sandbox
        .run(Invocation {
            request: job.id(),
            language: job.language(),
            workspace,
            access: Access::ReadWrite,
            command,
            environment: &job.language().env,
            stdin: &[],
            limits: RunLimits {
                wall: Duration::from_millis(limits.timeout_ms),
                memory_mb: limits.memory_mb,
                cpus: limits.cpus,
                processes: limits.processes,
                tmp_mb: limits.tmp_mb,
                output_bytes: settings.output_limit_kb as usize * 1024,
                // A compiler with much to say may still succeed.
                on_overflow: OnOverflow::Discard,
            },
        })
        .await?;
    assess(outcome, limits, settings).map(Some)
}

fn assess(outcome: Outcome, limits: &Compile, settings: &SandboxSettings) -> Result<Compiled, SandboxError> {
    let (stdout, stderr) = (text(&outcome.stdout), text(&outcome.stderr));
    let failed = |message: String| Compiled::Failed { message, stdout: stdout.clone() };
    Ok(match (outcome.oom, outcome.killed, outcome.exit) {
        (true, ..) => failed(format!("Compilation ran out of memory ({} MB)", limits.memory_mb)),
        (_, Some(Killed::WallTime), _) => failed("Compilation timed out".into()),
        (_, Some(Killed::Disk), _) => {
            failed(format!("Compilation wrote more than {} MB or too many files", settings.workspace_limit_mb))
        }
        (_, _, Exit::Code(0)) => Compiled::Program { output: stdout + &stderr },
        // The image lacks the compiler: our fault.
        (_, _, Exit::NotStarted(reason)) => return Err(SandboxError::failed("starting the compiler", reason)),
        (_, _, Exit::Signal(_) | Exit::Code(_) | Exit::Unknown) if stderr.trim().is_empty() => {
            failed("Compilation failed".into())
        }
        (_, _, Exit::Signal(_) | Exit::Code(_) | Exit::Unknown) => failed(stderr),
    })
}

fn text(captured: &Captured) -> String {
    let mut text = String::from_utf8_lossy(&captured.bytes).into_owned();
    if captured.truncated {
        text.push_str("\n… (cut)");
    }
    text
}
