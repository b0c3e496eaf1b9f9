//! The command `tribunal`, run as people and scripts run it.

#![allow(clippy::unwrap_used)]

mod bench;
mod cancel;
mod common;
mod dead;
mod down;
mod fleet;
mod judge;
mod run;
mod services;
mod submit;
mod usage;
