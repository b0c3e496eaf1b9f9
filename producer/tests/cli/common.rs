//! Running the command as a user does.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// `tribunal` in an empty folder, without settings of whoever runs the tests.
pub fn tribunal(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tribunal"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("TRIBUNAL_")) {
        command.env_remove(name);
    }
    command.env_remove("RUST_LOG").env_remove("TRACEPARENT").current_dir(folder).stdin(Stdio::null());
    command
}

pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
    pub took: Duration,
}

pub fn run(command: &mut Command) -> Ran {
    let began = Instant::now();
    let Output { status, stdout, stderr } = command.output().expect("the command starts");
    let text = |bytes| String::from_utf8(bytes).expect("output is UTF-8");
    Ran {
        code: status.code().expect("the command exits"),
        stdout: text(stdout),
        stderr: text(stderr),
        took: began.elapsed(),
    }
}

pub fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository").join("examples").join(name)
}

/// The address of a service that `tests/run` starts. A test that needs it does not pass without it.
pub fn service(variable: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| panic!("{variable} is not set: `tests/run unit` starts what it names"))
}
