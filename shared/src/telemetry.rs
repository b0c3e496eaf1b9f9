//! Logs: to stderr, as text for a person or as JSON for a collector.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// `RUST_LOG` chooses what is logged; `default` holds without it. On anything but a terminal a line is a JSON object,
/// whose strings are escaped, so that hostile text can neither forge a line nor drive a terminal.
pub fn init(default: &str) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A second call, as in tests, keeps the first subscriber.
    let _ = if std::io::stderr().is_terminal() {
        logs.try_init()
    } else {
        logs.json().flatten_event(true).with_span_list(false).try_init()
    };
}
