//! The command `tribunal`.

use std::process::ExitCode;

use clap::Parser as _;
use tribunal_producer::cli::{self, args::Arguments};

/// Warnings; and pulling an image, which can take minutes. The AMQP library logs every refused connection by itself: we
/// say it once, in our own words.
const LOGGED: &str = "warn,lapin=off,tribunal_worker::sandbox::docker::images=info";

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    tribunal_shared::telemetry::init(LOGGED);
    cli::main(arguments)
}
