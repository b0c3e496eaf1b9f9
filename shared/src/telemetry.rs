//! Logs: to stderr, as text for a person or as JSON for a collector.

use std::io::IsTerminal;

use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt};

/// What else hears of spans, beside the logs.
pub type Spans = Box<dyn Layer<Registry> + Send + Sync>;

/// `RUST_LOG` chooses what is logged; `default` holds without it. On anything but a terminal a line is a JSON object,
/// whose strings are escaped, so that hostile text can neither forge a line nor drive a terminal.
pub fn init(default: &str, spans: Option<Spans>) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    let logs = fmt::layer().with_writer(std::io::stderr);
    let logs = if std::io::stderr().is_terminal() {
        logs.with_filter(filter).boxed()
    } else {
        logs.json().flatten_event(true).with_span_list(false).with_filter(filter).boxed()
    };
    // A second call, as in tests, keeps the first subscriber.
    let _ = tracing_subscriber::registry().with(spans).with(logs).try_init();
}
