//! Puts work in and gets results out. [`client::Client`] is the only logic; the command line is a thin layer over it.

pub mod cli;
pub mod client;
