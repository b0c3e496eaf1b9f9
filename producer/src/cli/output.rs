//! Writing to stdout, which others may close, and to which colours belong only if it is a terminal.

use std::io::{self, ErrorKind, IsTerminal as _, Write as _};

use serde::Serialize;

use super::exit::Failure;

pub fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => Failure::ReaderGone,
        _ => Failure::Infrastructure(format!("cannot write to stdout: {error}")),
    })
}

pub fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::Infrastructure(format!("cannot write JSON: {error}")))?;
    print(&format!("{text}\n"))
}

/// See <https://no-color.org>.
pub fn colours() -> bool {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    io::stdout().is_terminal() && set("NO_COLOR").is_none() && set("TERM").is_some_and(|term| term != "dumb")
}
