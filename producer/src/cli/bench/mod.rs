//! `tribunal bench`: what a run costs, in our sandboxes and beside others, measured in turns.
//!
//! | file | what |
//! |---|---|
//! | `program` | what is run |
//! | `ours`, `others` | the ways to run it |
//! | `measure` | rounds, in turns, and what they saw |
//! | `report`, `chart` | the numbers, for people, scripts and slides |

mod chart;
mod measure;
mod others;
mod ours;
mod program;
mod report;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clap::ValueEnum as _;
use tribunal_shared::config::Settings;

use super::args::{Bench, BenchKind};
use super::exit::{Exit, Failure};
use super::output;
use super::signals::Signals;
use measure::Plan;
use program::Program;

/// Removing what still runs takes a moment.
const CLEAN_UP_WITHIN: Duration = Duration::from_secs(10);

/// Each kind with what came of it, or why nothing did.
type PerKind<T> = Vec<(BenchKind, Result<T, String>)>;

/// One way to run the program.
#[async_trait]
trait Runner: Send + Sync {
    /// Runs it so many times, one after the other. Returns how many milliseconds each took. `lane` tells runs apart that
    /// happen at the same time.
    async fn batch(&self, lane: usize, runs: usize) -> Result<Vec<f64>, String>;

    /// Waits until nothing of the runs is left to be done.
    async fn settle(&self) {}
}

pub async fn run(arguments: Bench, settings: Settings) -> Result<Exit, Failure> {
    let kinds: Vec<_> = BenchKind::value_variants()
        .iter()
        .copied()
        .filter(|kind| *kind == BenchKind::Bare || arguments.only.is_empty() || arguments.only.contains(kind))
        .collect();
    let plan = Plan {
        rounds: if arguments.quick { 3 } else { arguments.rounds as usize },
        batch: Duration::from_millis(if arguments.quick { 100 } else { 250 }),
        lanes: settings.worker.slots(),
    };
    let program = Program::build()?;
    let mut signals = Signals::listen()?;
    let runners = signals
        .or(async {
            let mut runners = Vec::new();
            for kind in kinds {
                runners.push((kind, runner(kind, &program, &settings, plan.lanes).await));
            }
            Ok(runners)
        })
        .await?;
    let used: Vec<_> = runners.iter().filter_map(|(_, runner)| runner.as_ref().ok()).map(Arc::clone).collect();
    // As a task, because tests are tasks too: they run on the threads that hear from the kernel first.
    let mut measuring = tokio::spawn(measure::all(runners, plan));
    let measured = signals.or(async { Ok((&mut measuring).await) }).await;
    measuring.abort();
    for runner in used {
        let _ = tokio::time::timeout(CLEAN_UP_WITHIN, runner.settle()).await;
    }
    let measured = measured?.map_err(|error| Failure::Infrastructure(format!("the bench broke off: {error}")))?;

    if let Some(path) = &arguments.svg {
        let written = std::fs::write(path, chart::svg(&measured));
        written.map_err(|error| Failure::Usage(format!("cannot write {}: {error}", path.display())))?;
    }
    if arguments.json {
        output::print_json(&report::json(&measured, &plan))?;
    } else {
        output::print(&report::text(&measured, &plan, output::colours()))?;
    }
    // What was asked for by name and could not be measured is a failure; what merely is not installed is not.
    let wanted = |kind: &BenchKind| *kind == BenchKind::Bare || arguments.only.contains(kind);
    let all = measured.iter().all(|(kind, measured)| measured.is_ok() || !wanted(kind));
    Ok(if all { Exit::Success } else { Exit::Infrastructure })
}

/// Ready to run, or why it cannot.
async fn runner(
    kind: BenchKind,
    program: &Program,
    settings: &Settings,
    lanes: usize,
) -> Result<Arc<dyn Runner>, String> {
    match kind {
        BenchKind::Bare => Ok(others::bare(program)),
        BenchKind::Native | BenchKind::Docker => ours::start(kind, program, settings, lanes).await,
        BenchKind::Isolate => others::isolate(program),
        BenchKind::Bwrap => others::bwrap(program),
        BenchKind::Runc => others::runc(program),
    }
}
