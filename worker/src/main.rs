//! The command `tribunal-worker`.

use std::process::ExitCode;

fn main() -> ExitCode {
    tribunal_worker::command::main()
}
