//! `tribunal-worker`: settings → parts → run.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};
use tribunal_shared::config::Settings;
use tribunal_shared::{queue, store, telemetry};
use tribunal_worker::run::{Parts, run};
use tribunal_worker::sandbox;

/// Pulls requests from the queue, judges them and stores the results.
#[derive(Parser)]
#[command(
    name = "tribunal-worker",
    version,
    after_help = "Settings come from tribunal.toml in the working folder (or --config, or TRIBUNAL_CONFIG), then from \
                  the environment:\n  TRIBUNAL_QUEUE__URL=amqp://rabbit:5672 TRIBUNAL_STORE__URL=redis://redis:6379 \
                  tribunal-worker\n\nSIGTERM and SIGINT finish what runs and exit 0; a second one exits at once.\n\
                  Exit codes: 0 stopped as asked, 2 bad settings or usage, 3 something it needs is missing."
)]
struct Arguments {
    /// Settings file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    telemetry::init("info,lapin=warn");
    let settings = match Settings::load(arguments.config.as_deref()) {
        Ok(settings) => settings,
        Err(error) => return complain(&error, 2),
    };
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return complain(&error, 3),
    };
    match runtime.block_on(start(settings)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => complain(&*error, 3),
    }
}

fn complain(error: &dyn std::error::Error, code: u8) -> ExitCode {
    eprintln!("tribunal-worker: {error}");
    ExitCode::from(code)
}

async fn start(settings: Settings) -> Result<(), Box<dyn std::error::Error>> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let mut signalled = async move || {
        tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
    };
    let sandbox = sandbox::from_config(&settings).await?;
    let store = store::connect(&settings.store).await?;
    let broker = queue::connect(&settings.queue)?;
    for language in settings.languages().iter() {
        if let Err(error) = sandbox.prepare(language).await {
            tracing::warn!(language = language.name(), %error, "cannot be judged here; it is tried again when asked for");
        }
    }
    let name = format!("{}-{}", rustix::system::uname().nodename().to_string_lossy(), std::process::id());
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let worker = run(Parts { broker, store, sandbox, settings, name }, async {
        // Dropped or sent: either way it is time to stop.
        let _ = stopped.await;
    });
    let mut worker = std::pin::pin!(worker);
    tokio::select! {
        () = &mut worker => return Ok(()),
        () = signalled() => drop(stop),
    }
    tokio::select! {
        () = worker => Ok(()),
        () = signalled() => Err("stopped at once, by a second signal".into()),
    }
}
