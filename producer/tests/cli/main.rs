//! The command `tribunal`, run as people and scripts run it.

#![allow(clippy::unwrap_used)]

mod bench;
mod common;
mod down;
mod fleet;
mod judge;
mod run;
mod usage;
