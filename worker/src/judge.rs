//! From a job to its result: compile, run every test, fold. Knows no queue and no store.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::{FutureExt, StreamExt, TryStreamExt, stream};
use tokio::sync::mpsc;
use tracing::{Instrument, debug_span};
use tribunal_shared::config::SandboxSettings;
use tribunal_shared::request::{Job, Test};
use tribunal_shared::result::{ExecutionResult, TestResult};
use tribunal_shared::store::Event;

use crate::compile::{Compiled, compile};
use crate::failpoint::{self, Point};
use crate::metrics;
use crate::sandbox::{Access, Exit, Invocation, OnOverflow, Outcome, RunLimits, Sandbox, SandboxError, Workspace};
use crate::slots::Slots;
use crate::verdict;

pub struct Judge<'a> {
    pub sandbox: &'a dyn Sandbox,
    pub settings: &'a SandboxSettings,
    /// What runs at once on this worker, over all requests.
    pub slots: &'a Slots,
}

pub enum Built {
    Program(Program),
    /// With why it could not be compiled, and what the compiler printed to stdout.
    Failed {
        message: String,
        stdout: String,
    },
}

/// Ready to be run.
pub struct Program {
    workspace: Workspace,
    command: Vec<String>,
    /// `None` if there was nothing to compile.
    pub compiler_output: Option<String>,
}

impl Judge<'_> {
    /// An error is ours, and another attempt may do better.
    pub async fn judge(
        &self,
        job: &Job,
        progress: &mpsc::UnboundedSender<Event>,
    ) -> Result<ExecutionResult, SandboxError> {
        let began = Instant::now();
        let elapsed_ms = || began.elapsed().as_millis() as u64;
        let program = match self.build(job).await? {
            Built::Failed { message, stdout } => {
                return Ok(ExecutionResult::compilation_error(job.id(), message, stdout, elapsed_ms()));
            }
            Built::Program(program) => program,
        };
        failpoint::reach(Point::Compiled, Some(job.id()));
        if program.compiler_output.is_some() {
            let _ = progress.send(Event::Compiled { time_ms: elapsed_ms() });
        }
        let tests = self.run_tests(job, &program, progress).await?;
        let compilation_output = program.compiler_output.filter(|output| !output.trim().is_empty());
        Ok(ExecutionResult { compilation_output, ..ExecutionResult::from_tests(job.id(), tests, elapsed_ms()) })
    }

    /// Compiles what must be compiled.
    pub async fn build(&self, job: &Job) -> Result<Built, SandboxError> {
        self.sandbox.prepare(job.language()).await?;
        let commands = job.language().commands(job.code(), job.limits().memory_mb);
        let workspace = self.sandbox.workspace(job.id()).await?;
        failpoint::reach(Point::Workspace, Some(job.id()));
        workspace.write(&commands.source_file, job.code().as_bytes())?;
        let compiled = {
            let _slot = self.slots.take(job.priority()).await;
            let began = Instant::now();
            let compiled = compile(job, &commands, &workspace, self.sandbox, self.settings)
                .instrument(debug_span!("compile"))
                .await?;
            if let Some(compiled) = &compiled {
                metrics::compiled(job.language().name(), compiled.is_program(), began.elapsed());
            }
            compiled
        };
        let compiler_output = match compiled {
            None => None,
            Some(Compiled::Failed { message, stdout }) => return Ok(Built::Failed { message, stdout }),
            Some(Compiled::Program { output }) => Some(output),
        };
        Ok(Built::Program(Program { workspace, command: commands.run, compiler_output }))
    }

    /// In parallel where slots are free, in order in the result. A request never stands in line more often than there
    /// are slots, so that one with a thousand tests does not keep the others waiting.
    async fn run_tests(
        &self,
        job: &Job,
        program: &Program,
        progress: &mpsc::UnboundedSender<Event>,
    ) -> Result<Vec<TestResult>, SandboxError> {
        let budget = Budget::new(job.limits().total_timeout);
        let output = OutputBudget::new(self.settings.result_output_kb * 1024);
        let total = job.tests().len();
        let (budget, output) = (&budget, &output);
        let runs = (0..total).map(|index| {
            let test = &job.tests()[index];
            async move {
                let mut result =
                    self.run_test(job, test, program, budget).instrument(debug_span!("test", index)).await?;
                output.keep(&mut result.actual_output);
                let _ = progress.send(Event::Test {
                    index,
                    total,
                    test_id: result.test_id.clone(),
                    status: result.status,
                    execution_time_ms: result.execution_time_ms,
                    memory_used_kb: result.memory_used_kb,
                });
                Ok(result)
            }
            .boxed()
        });
        stream::iter(runs).buffered(self.slots.count()).try_collect().await
    }

    async fn run_test(
        &self,
        job: &Job,
        test: &Test,
        program: &Program,
        budget: &Budget,
    ) -> Result<TestResult, SandboxError> {
        let _slot = self.slots.take(job.priority()).await;
        let Some(timeout) = budget.allow(test.timeout) else {
            return Ok(verdict::out_of_time(test));
        };
        failpoint::reach(Point::TestStarted, Some(job.id()));
        let outcome = self.run(job, program, test.input.as_bytes(), timeout).await?;
        failpoint::reach(Point::TestEnded, Some(job.id()));
        budget.spend(outcome.wall);
        Ok(verdict::of_test(test, timeout, outcome))
    }

    /// Runs a program once. Whoever calls this holds a slot.
    pub async fn run(
        &self,
        job: &Job,
        program: &Program,
        stdin: &[u8],
        timeout: Duration,
    ) -> Result<Outcome, SandboxError> {
        let command = &program.command;
        let outcome = self
            .sandbox
            .run(Invocation {
                request: job.id(),
                language: job.language(),
                workspace: &program.workspace,
                access: Access::ReadOnly,
                command,
                environment: &job.language().env,
                stdin,
                limits: RunLimits {
                    wall: timeout + Duration::from_millis(self.settings.wall_allowance_ms),
                    memory_mb: job.limits().memory_mb,
                    cpus: job.limits().cpus,
                    processes: self.settings.max_processes,
                    tmp_mb: self.settings.tmp_mb,
                    output_bytes: self.settings.output_limit_kb as usize * 1024,
                    on_overflow: OnOverflow::Kill,
                },
            })
            .await?;
        // An interpreter that the image lacks is our fault; a program that its compiler did not leave is not.
        if let Exit::NotStarted(reason) = &outcome.exit
            && !command.first().is_some_and(|program| program.starts_with("./"))
        {
            return Err(SandboxError::failed(format!("starting {}", command.join(" ")), reason));
        }
        Ok(outcome)
    }
}

/// What is left of a request's total time. Only the time that its programs ran is spent: waiting for a slot on a busy
/// worker is nobody's fault, and tests that ran side by side count each for itself, as if one after the other.
struct Budget {
    left: Mutex<Duration>,
}

impl Budget {
    fn new(total: Duration) -> Self {
        Self { left: Mutex::new(total) }
    }

    fn left(&self) -> std::sync::MutexGuard<'_, Duration> {
        self.left.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The time a test gets, if there is any left.
    fn allow(&self, wanted: Duration) -> Option<Duration> {
        Some(wanted.min(*self.left())).filter(|time| !time.is_zero())
    }

    fn spend(&self, time: Duration) {
        let mut left = self.left();
        *left = left.saturating_sub(time);
    }
}

/// What a result may still keep of its tests' outputs, which are judged whole but not carried whole: a thousand tests at
/// their limit would make a result, and a worker, of hundreds of megabytes.
struct OutputBudget {
    left: AtomicU64,
}

impl OutputBudget {
    fn new(bytes: u64) -> Self {
        Self { left: AtomicU64::new(bytes) }
    }

    fn keep(&self, output: &mut String) {
        let wanted = output.len() as u64;
        let take = |left: u64| Some(left.saturating_sub(wanted));
        let left = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).unwrap_or_else(|left| left);
        if wanted > left {
            output.truncate(output.floor_char_boundary(left as usize));
            output.push_str("… (cut)");
            output.shrink_to_fit();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_are_kept_whole_until_there_is_no_room_for_them() {
        let budget = OutputBudget::new(7);
        let kept = |text: &str| {
            let mut text = text.to_owned();
            budget.keep(&mut text);
            text
        };
        assert_eq!(kept("12345"), "12345");
        assert_eq!(kept("aé"), "a… (cut)");
        assert_eq!(kept("x"), "… (cut)");
        assert_eq!(kept(""), "");
    }

    #[test]
    fn a_budget_gives_what_is_left_and_then_nothing() {
        let seconds = Duration::from_secs;
        let budget = Budget::new(seconds(5));
        assert_eq!(budget.allow(seconds(3)), Some(seconds(3)));
        budget.spend(seconds(3));
        assert_eq!(budget.allow(seconds(3)), Some(seconds(2)));
        budget.spend(seconds(4));
        assert_eq!(budget.allow(seconds(3)), None);
    }
}
