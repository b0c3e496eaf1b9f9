//! What every sandbox promises, whatever it is made of. One list for all of them.

mod ends;
mod files;
mod limits;
mod remains;
mod streams;

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::ground::Ground;
use crate::report::Report;
use crate::world::{Kind, World};

type Promise = fn(Arc<Ground>) -> BoxFuture<'static, ()>;

macro_rules! promises {
    ($($module:ident::$name:ident),* $(,)?) => {
        &[$((stringify!($name), (|ground| Box::pin($module::$name(ground))) as Promise)),*]
    };
}

const PROMISES: &[(&str, Promise)] = promises![
    ends::an_exit_code_is_told_from_a_signal,
    ends::a_command_that_cannot_be_started_says_why,
    ends::a_child_that_is_left_keeps_nobody_waiting,
    ends::the_environment_is_what_was_asked_for_and_little_else,
    ends::arguments_arrive_as_they_are,
    ends::it_runs_in_the_workspace_as_nobody_special,
    streams::input_arrives_and_ends,
    streams::large_input_arrives_whole,
    streams::input_that_nobody_reads_harms_nobody,
    streams::streams_are_apart_and_exact,
    streams::the_streams_can_be_opened_by_name,
    streams::output_at_the_limit_is_whole,
    streams::output_over_the_limit_ends_the_program,
    streams::output_over_the_limit_can_be_forgotten_instead,
    streams::both_streams_flow_at_once,
    limits::wall_time_over_the_limit_ends_it_soon,
    limits::wall_time_is_the_programs_alone,
    limits::cpu_time_of_children_counts,
    limits::sleeping_costs_no_cpu_time,
    limits::peak_memory_is_plausible,
    limits::memory_of_one_run_is_not_counted_for_the_next,
    limits::want_of_memory_is_told,
    limits::processes_are_limited,
    limits::a_share_of_a_processor_is_not_exceeded,
    limits::scratch_space_is_as_large_as_asked_for,
    files::a_program_may_write_to_scratch_alone,
    files::what_a_compiler_leaves_is_there_for_the_programs,
    files::files_of_any_kind_may_be_left,
    files::too_much_in_the_workspace_ends_the_compiler,
    files::the_source_is_read_only,
    remains::nothing_survives_a_run,
    remains::many_runs_at_once_do_not_meet,
    remains::a_run_that_is_dropped_leaves_no_process,
    remains::a_workspace_that_is_dropped_is_gone,
    remains::settling_waits_for_what_was_dropped,
];

pub async fn run(kind: &Kind, only: Option<&str>) -> Report {
    let world = World::start(kind).await;
    let ground = Arc::new(Ground::new(world));
    let reasons = collect_panics();
    let mut report = Report::new();
    for (name, promise) in PROMISES.iter().filter(|(name, _)| only.is_none_or(|only| name.contains(only))) {
        let began = Instant::now();
        let kept = AssertUnwindSafe(promise(Arc::clone(&ground))).catch_unwind().await;
        let reasons = std::mem::take(&mut *reasons.lock().unwrap());
        let complaints = if kept.is_ok() { Vec::new() } else { reasons };
        report.line(&name.replace('_', " "), "", began.elapsed(), &complaints);
    }
    ground.world.sandbox.settle().await;
    report
}

/// Where and why an assertion failed, for the report instead of stderr.
fn collect_panics() -> Arc<Mutex<Vec<String>>> {
    let reasons = Arc::new(Mutex::new(Vec::new()));
    let collected = Arc::clone(&reasons);
    std::panic::set_hook(Box::new(move |panic| collected.lock().unwrap().push(panic.to_string())));
    reasons
}
