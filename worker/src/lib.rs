//! Pulls requests, judges them, stores the results.
//!
//! `run` is the loop, `run_one` the life of a delivery; `judge` knows no queue and no store; a sandbox knows no verdicts.
//! Dependencies point one way: `command → run → run_one → judge → {compile, verdict, sandbox}`; `trial` is another way into
//! `judge`. `health`, `pulse`, `metrics`, `spans` and `http` tell others how a worker is.

pub mod command;
mod compile;
mod failpoint;
mod health;
mod http;
mod judge;
mod metrics;
mod pulse;
pub mod rootfs;
pub mod run;
mod run_one;
pub mod sandbox;
mod slots;
mod spans;
mod toolchains;
pub mod trial;
mod turns;
mod verdict;
