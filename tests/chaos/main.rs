//! A fleet of real workers on a RabbitMQ and a Redis of its own, all of which die, freeze, restart and fill up while it
//! works; and the reckoning afterwards: what was promised is compared with what is there. `tests/run chaos` and `tests/run cluster` run it.

mod cases;
mod cluster;
mod court;
mod disk;
mod docker;
mod fleet;
mod ledger;
mod pace;
mod plan;
mod points;
mod reckoning;
mod storm;
mod traces;
mod troubles;
mod wire;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use fastrand::Rng;
use tokio::signal::unix::{SignalKind, signal};

use plan::Plan;
use storm::Storm;

#[derive(Parser)]
#[command(name = "chaos", about = "Lets everything fail around a fleet at work, and counts what is lost")]
struct Arguments {
    #[command(subcommand)]
    other: Option<Other>,
    /// A thousand kills over twenty thousand requests
    #[arg(long)]
    long: bool,
    /// The same troubles and requests again; not the same moments
    #[arg(long, global = true)]
    seed: Option<u64>,
    /// Another number of requests, for a short look
    #[arg(long)]
    requests: Option<usize>,
}

#[derive(Subcommand)]
enum Other {
    /// A cluster of three RabbitMQ nodes instead, each of which is killed once
    Cluster,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let seed = arguments.seed.unwrap_or_else(|| fastrand::u64(0..1_000_000));
    eprintln!("chaos: seed {seed}");
    let mut plan = if arguments.long { Plan::LONG } else { Plan::SHORT };
    plan.requests = arguments.requests.unwrap_or(plan.requests);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let mut rng = Rng::with_seed(seed);
        let (mut interrupt, mut terminate) = (
            signal(SignalKind::interrupt()).expect("a handler of signals"),
            signal(SignalKind::terminate()).expect("a handler of signals"),
        );
        let interrupted = async move {
            tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
        };
        if let Some(Other::Cluster) = arguments.other {
            return cluster::run(seed, &mut rng, interrupted).await;
        }
        let storm = Storm::prepare(plan, seed, &mut rng).await;
        let end = storm.rage(&mut rng, interrupted).await;
        storm.reckon(end).await
    })
}
