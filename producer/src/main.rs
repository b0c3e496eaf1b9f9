//! The command `tribunal`.

use std::process::ExitCode;

use tribunal_producer::cli::{self, args::Arguments};

/// Warnings, and the pulling of an image, which can take minutes. Not what we say ourselves and in other words: that a
/// connection was refused, or that a request was tried again, which its result tells.
const LOGGED: &str = "warn,lapin=off,tribunal_worker::run=off,tribunal_worker::sandbox::docker::images=info";

fn main() -> ExitCode {
    tribunal_worker::sandbox::native::serve_if_zygote();
    let arguments = Arguments::parse_or_exit();
    tribunal_shared::telemetry::init(LOGGED, None);
    cli::main(arguments)
}
