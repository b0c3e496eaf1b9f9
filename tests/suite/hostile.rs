//! Judges programs that mean harm. Each must get its verdict, reach nothing, leave nothing and spoil nothing for the next.

use std::time::{Duration, Instant};

use tribunal_shared::result::{ExecutionResult, ExecutionStatus};
use tribunal_tests::requests::request;

use crate::plants::Plants;
use crate::program::Program;
use crate::report::Report;
use crate::traces::Watch;
use crate::world::{Court, Kind, World};

pub fn list(programs: &[Program]) -> Report {
    let mut report = Report::new();
    for program in programs {
        report.line(&program.name, &program.expect.join("|"), Duration::ZERO, &[]);
    }
    report
}

pub async fn run(kind: &Kind, programs: &[Program]) -> Report {
    let court = Court::open(World::start(kind).await);
    let plants = Plants::new(court.world.folder.path());
    let mut report = Report::new();
    // What the worker keeps for later runs, it has from here on.
    let (one, other) = tokio::join!(innocent(&court), innocent(&court));
    let complaints: Vec<_> = one.into_iter().chain(other).collect();
    report.line("an innocent program before all others", "", Duration::ZERO, &complaints);
    court.world.sandbox.settle().await;
    let mut watch = Watch::new(&court.world).await;
    for program in programs {
        let began = Instant::now();
        let judged = court.judge(program.request(&plants)).await;
        let took = began.elapsed();
        let (found, mut complaints) = match &judged {
            Ok(result) => (status(result), assess(program, &plants, result)),
            Err(problem) => ("no result", vec![problem.clone()]),
        };
        complaints.extend(innocent(&court).await);
        complaints.extend(plants.complaints());
        complaints.extend(watch.complaints().await);
        report.line(&program.name, found, took, &complaints);
    }
    court.close().await;
    report
}

fn status(result: &ExecutionResult) -> &'static str {
    match result.test_results.as_slice() {
        [first, ..] => first.status.as_str(),
        [] => result.status.as_str(),
    }
}

fn assess(program: &Program, plants: &Plants, result: &ExecutionResult) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut found: Vec<_> = result.test_results.iter().map(|test| test.status.as_str()).collect();
    if found.is_empty() {
        found.push(result.status.as_str());
    }
    if !found.iter().all(|status| program.expect.iter().any(|expected| expected == status)) {
        complaints.push(format!("expected {}, found {}", program.expect.join(" or "), found.join(", ")));
        complaints.push(format!("{:?}", Shortened(result)));
    }
    let told = told(result);
    if let Some(says) = &program.says
        && !told.iter().any(|text| text.contains(says.as_str()))
    {
        complaints.push(format!("nobody says {says:?}: {:?}", Shortened(result)));
    }
    if told.iter().any(|text| text.contains(&plants.secret)) {
        complaints.push(format!("a planted secret was read: {:?}", Shortened(result)));
    }
    complaints
}

/// Everything in a result that came from the program or its compiler.
fn told(result: &ExecutionResult) -> Vec<&str> {
    let of_tests = result.test_results.iter().flat_map(|test| {
        [Some(&test.actual_output), test.stderr.as_ref(), test.error_message.as_ref(), test.signal.as_ref()]
    });
    let error = result.error_info.iter().flat_map(|error| [Some(&error.message), error.details.as_ref()]);
    of_tests.chain(error).chain([result.compilation_output.as_ref()]).flatten().map(String::as_str).collect()
}

/// What a person needs to see of a result that is wrong.
struct Shortened<'a>(&'a ExecutionResult);

impl std::fmt::Debug for Shortened<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let cut = |text: &str| text.chars().take(600).collect::<String>();
        writeln!(f, "{}", self.0.summary)?;
        for text in told(self.0).into_iter().filter(|text| !text.is_empty()) {
            writeln!(f, "{:?}", cut(text))?;
        }
        Ok(())
    }
}

async fn innocent(court: &Court) -> Option<String> {
    match court.judge(request("bash", "cat", &[("fine", "fine")])).await {
        Ok(result) if result.status == ExecutionStatus::AllPassed => None,
        Ok(result) => Some(format!("afterwards an innocent program was judged wrong: {:?}", Shortened(&result))),
        Err(problem) => Some(format!("afterwards an innocent program was not judged: {problem}")),
    }
}
