//! The command `tribunal`, run as people and scripts run it.

#![allow(clippy::unwrap_used)]

mod common;
mod down;
mod fleet;
mod judge;
mod usage;
