//! Writing to stdout, which others may close, and to which colours belong only if it is a terminal.

use std::ffi::OsString;
use std::io::{self, ErrorKind, IsTerminal as _, Write as _};

use serde::Serialize;

use super::escape;
use super::exit::Failure;

pub fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => Failure::ReaderGone,
        _ => Failure::Infrastructure(format!("cannot write to stdout: {error}")),
    })
}

pub fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    print_serialized(serde_json::to_string_pretty(value))
}

/// For who reads one value after the other.
pub fn print_json_line(value: &impl Serialize) -> Result<(), Failure> {
    print_serialized(serde_json::to_string(value))
}

fn print_serialized(json: serde_json::Result<String>) -> Result<(), Failure> {
    let json = json.map_err(|error| Failure::Infrastructure(format!("cannot write JSON: {error}")))?;
    print(&format!("{}\n", escape::json(&json)))
}

/// On a screen, in place of what is there.
pub fn redraw(text: &str) -> Result<(), Failure> {
    const HOME: &str = "\x1b[H";
    const CLEAR_LINE: &str = "\x1b[K\n";
    const CLEAR_BELOW: &str = "\x1b[J";
    // Cleared line by line while it is written, so that nothing flickers.
    print(&format!("{HOME}{}{CLEAR_BELOW}", text.replace('\n', CLEAR_LINE)))
}

/// A terminal that can do more than roll on.
pub fn is_screen() -> bool {
    io::stdout().is_terminal() && variable("TERM").is_some_and(|term| term != "dumb")
}

/// See <https://no-color.org>.
pub fn colours() -> bool {
    is_screen() && variable("NO_COLOR").is_none()
}

fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}
