//! A program run once, without a test: the road of a judgement, up to the facts.

use tribunal_shared::config::SandboxSettings;
use tribunal_shared::request::Job;
use tribunal_shared::result::TestStatus;

use crate::judge::{Built, Judge};
use crate::sandbox::{Outcome, Sandbox, SandboxError};
use crate::slots::Slots;
use crate::verdict;

pub use crate::verdict::signal_name;

pub enum Trial {
    /// With why it could not be compiled, and what the compiler printed to stdout.
    NotCompiled { message: String, stdout: String },
    Ran {
        /// `None` if there was nothing to compile.
        compiler_output: Option<String>,
        outcome: Outcome,
        /// What a test would have failed for, whatever it expects.
        fault: Option<(TestStatus, String)>,
    },
}

/// Compiles the job's code and runs it once, on `stdin` and under the job's limits. Its tests are not looked at.
pub async fn run(
    job: &Job,
    stdin: &[u8],
    sandbox: &dyn Sandbox,
    settings: &SandboxSettings,
) -> Result<Trial, SandboxError> {
    let slots = Slots::new(1);
    let judge = Judge { sandbox, settings, slots: &slots };
    let program = match judge.build(job).await? {
        Built::Failed { message, stdout } => return Ok(Trial::NotCompiled { message, stdout }),
        Built::Program(program) => program,
    };
    let timeout = job.limits().timeout;
    let outcome = judge.run(job, &program, stdin, timeout).await?;
    Ok(Trial::Ran { fault: verdict::fault(timeout, &outcome), outcome, compiler_output: program.compiler_output })
}
