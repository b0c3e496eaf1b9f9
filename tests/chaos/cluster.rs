//! A fleet on three RabbitMQ nodes, each of which is killed in the middle of the work.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fastrand::Rng;
use tokio::task::JoinSet;
use tribunal_tests::binary;
use tribunal_tests::rabbit::Cluster;
use tribunal_tests::redis::Redis;

use crate::court::Court;
use crate::fleet::{Fleet, GRACE, Place};
use crate::points::Dooms;
use crate::reckoning::{Findings, thousands};
use crate::storm::waiting_in;
use crate::troubles::HEARTBEAT_S;

const NODES: usize = 3;
const WORKERS: usize = 3;
const REQUESTS: usize = 1_000;
const STANDSTILL: Duration = Duration::from_secs(60);
const AT_MOST: Duration = Duration::from_secs(8 * 60);
const LOOKED_EVERY: Duration = Duration::from_millis(250);
const REPORTED_EVERY: Duration = Duration::from_secs(5);

pub async fn run(seed: u64, rng: &mut Rng, interrupted: impl Future<Output = ()>) -> ExitCode {
    let folder = tempfile::Builder::new().prefix("tribunal-cluster-").tempdir().expect("a temporary folder");
    let logs = tempfile::Builder::new().prefix("tribunal-cluster-logs-").tempdir().expect("a temporary folder");
    let (mut cluster, store) = (Cluster::start(NODES), Redis::start());
    let begun = Instant::now();
    let nodes: Vec<_> = cluster.nodes().iter().map(|node| format!("{}?heartbeat={HEARTBEAT_S}", node.url())).collect();
    let settings = format!(
        "queue.url = \"{}\"\nqueue.name = \"cluster\"\nstore.url = \"{}\"\nworker.slots = 2\nworker.max_attempts = 10\n\
         worker.grace_s = {}\nsandbox.workspace_root = \"{}\"\nsandbox.native.cgroup = \"tribunal-cluster-{}\"\n",
        nodes.join(","),
        store.url(),
        GRACE.as_secs(),
        folder.path().join("work").display(),
        std::process::id(),
    );
    let court = Court::open(folder.path(), "cluster", &settings, REQUESTS, 40).await;
    let place = |number| Place {
        name: format!("native-{number}"),
        binary: binary("tribunal-worker"),
        settings: court.settings_file.clone(),
        doomed: false,
    };
    let places = (0..WORKERS).map(place).collect();
    let mut fleet = Fleet::start(places, Dooms::plan(0, rng), Arc::clone(&court.pace), logs.path(), rng);
    let mut watching = JoinSet::new();
    watching.spawn(Arc::clone(&court).watch());
    let mut producing = JoinSet::new();
    producing.spawn(Arc::clone(&court).produce(rng.fork()));

    // Each node once, spread over the work.
    let (pace, mut own_rng) = (Arc::clone(&court.pace), rng.fork());
    let killing = tokio::task::spawn_blocking(move || {
        let mut order: Vec<_> = (0..NODES).collect();
        own_rng.shuffle(&mut order);
        let mut killed = 0;
        for (index, number) in order.into_iter().enumerate() {
            if !pace.reach((index + 1) as f64 / (NODES + 1) as f64) {
                break;
            }
            eprintln!("chaos: node {number} is killed");
            cluster.node(number).kill();
            killed += 1;
            // The others go on without it.
            pace.pause(Duration::from_millis(own_rng.u64(2_000..6_000)));
            cluster.node(number).start_again();
            eprintln!("chaos: node {number} is back");
        }
        (cluster, killed)
    });

    let mut interrupted = std::pin::pin!(interrupted);
    let (mut reported, mut failures, mut stopped) = (Instant::now(), Vec::new(), false);
    loop {
        tokio::select! {
            () = &mut interrupted => { stopped = true; break }
            () = tokio::time::sleep(LOOKED_EVERY) => {}
        }
        let totals = court.ledger.totals();
        if reported.elapsed() > REPORTED_EVERY {
            reported = Instant::now();
            eprintln!(
                "chaos: {} s: {} of {REQUESTS} judged, {} open",
                begun.elapsed().as_secs(),
                totals.done,
                totals.open
            );
        }
        if totals.done >= REQUESTS && killing.is_finished() {
            break;
        }
        if court.pace.standstill() > STANDSTILL || begun.elapsed() > AT_MOST {
            failures.push(format!("{} of {REQUESTS} judged, and no end in sight", totals.done));
            break;
        }
    }
    court.pace.end();
    court.produce_no_more();
    let (cluster, killed) = killing.await.expect("a node could not be killed or started again");
    if stopped {
        return ExitCode::from(130);
    }
    while producing.join_next().await.is_some() {}
    while court.ledger.totals().open > 0 && court.pace.standstill() < STANDSTILL {
        tokio::time::sleep(LOOKED_EVERY).await;
    }
    let mut findings = Findings::default();
    findings.pending = waiting_in(move || cluster.nodes()[0].queues()).await;
    tokio::task::block_in_place(|| fleet.stop());
    if let Err(error) = findings.compare(&court.settings.store.url, &court.ledger).await {
        failures.push(format!("the store could not be read: {error}"));
    }
    if killed < NODES {
        failures.push(format!("only {killed} nodes were killed"));
    }
    failures.extend(fleet.tally().surprises);
    println!(
        "chaos: seed {seed}, {} s, a cluster of {NODES} nodes, {killed} killed, {} requests: {}",
        begun.elapsed().as_secs(),
        thousands(court.ledger.totals().confirmed),
        findings.counts()
    );
    if findings.none() && failures.is_empty() {
        return ExitCode::SUCCESS;
    }
    eprint!("{}", findings.details());
    failures.iter().for_each(|failure| eprintln!("chaos: {failure}"));
    eprintln!("chaos: logs are kept in {}", logs.keep().display());
    ExitCode::FAILURE
}
