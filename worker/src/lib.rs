//! Pulls requests, judges them, stores the results.
//!
//! `run` is the life of a delivery; `judge` knows no queue and no store; a sandbox knows no verdicts.
//! Dependencies point one way: `run → judge → {compile, verdict, sandbox}`.

mod compile;
mod judge;
pub mod run;
pub mod sandbox;
mod verdict;
