//! Pulls requests, judges them, stores the results.
//!
//! `run` is the life of a delivery; `judge` knows no queue and no store; a sandbox knows no verdicts.
//! Dependencies point one way: `run → judge → {compile, verdict, sandbox}`; `trial` is another way into `judge`.

mod compile;
mod judge;
pub mod rootfs;
pub mod run;
pub mod sandbox;
pub mod trial;
mod verdict;
