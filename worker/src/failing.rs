//! `tribunal-worker` for tests: the environment variable `TEST_FAILPOINT` says where it dies.

use std::process::ExitCode;

fn main() -> ExitCode {
    tribunal_worker::command::main()
}
