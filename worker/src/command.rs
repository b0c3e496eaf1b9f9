//! `tribunal-worker`: settings → parts → run.

mod rootfs;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::run::{Parts, run};
use crate::sandbox::{self, Sandbox};
use crate::toolchains::Toolchains;
use crate::{http, metrics, spans};
use clap::{Parser, Subcommand};
use rootfs::Rootfs;
use tokio::signal::unix::{SignalKind, signal};
use tribunal_shared::config::Settings;
use tribunal_shared::language::Language;
use tribunal_shared::{queue, store, telemetry};

const LOOKED_FOR_AGAIN_AFTER: Duration = Duration::from_secs(30);

/// Pulls requests from the queue, judges them and stores the results
#[derive(Parser)]
#[command(
    name = "tribunal-worker",
    version,
    after_help = "Settings come from tribunal.toml in the working folder (or --config, or TRIBUNAL_CONFIG), then from \
                  the environment:\n  TRIBUNAL_QUEUE__URL=amqp://rabbit:5672 TRIBUNAL_STORE__URL=redis://redis:6379 \
                  tribunal-worker\n\nWithout a command it works until it is stopped. SIGTERM and SIGINT finish what runs and exit 0; a second one exits at once.\n\
                  Exit codes: 0 stopped as asked, 2 bad settings or usage, 3 something it needs is missing."
)]
struct Arguments {
    /// Settings file
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Root file systems for the native sandbox
    #[command(subcommand)]
    Rootfs(Rootfs),
}

/// Runs the command to its end.
pub fn main() -> ExitCode {
    sandbox::native::serve_if_zygote();
    let arguments = Arguments::parse();
    // The broker's client complains of every lost connection at length; we say it once.
    let (spans, _export) = match spans::export() {
        Ok(exported) => exported.unzip(),
        Err(error) => return complain(&*Box::<dyn std::error::Error>::from(error), 2),
    };
    telemetry::init("info,lapin=off", spans);
    let settings = match Settings::load(arguments.config.as_deref()) {
        Ok(settings) => settings,
        Err(error) => return complain(&error, 2),
    };
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return complain(&error, 3),
    };
    if let Some(Command::Rootfs(command)) = arguments.command {
        return runtime.block_on(rootfs::run(command, &settings));
    }
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
    let parts = tokio::select! {
        parts = connect(settings) => parts?,
        () = signalled() => return Ok(()),
    };
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let worker = run(parts, async {
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

async fn connect(settings: Settings) -> Result<Parts, Box<dyn std::error::Error>> {
    // First what can be wrong by a word in the settings.
    let listener = match settings.worker.listen.parse() {
        Ok(address) => Some(http::bind(address).await?),
        Err(_) => None,
    };
    let broker = queue::connect(&settings.queue)?;
    let sandbox = sandbox::from_config(&settings).await?;
    let store = store::connect(&settings.store).await?;
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let parts = Parts::new(broker, store, sandbox, settings, &host);
    // Beside the first requests, which wait only for what they need themselves.
    tokio::spawn(prepare_all(Arc::downgrade(&parts.sandbox), own_languages(&parts), Arc::clone(&parts.toolchains)));
    if let Some(listener) = listener {
        let (health, pulse) = (Arc::clone(&parts.health), Arc::clone(&parts.pulse));
        tokio::spawn(http::serve(listener, http::Watched { metrics: metrics::install()?, health, pulse }));
    }
    Ok(parts)
}

/// Those that may be asked of this worker.
fn own_languages(Parts { settings, .. }: &Parts) -> Vec<Arc<Language>> {
    let bound = &settings.worker.languages;
    let all = settings.languages();
    all.iter()
        .filter(|language| bound.is_empty() || bound.iter().any(|name| name == language.name()))
        .cloned()
        .collect()
}

/// Again and again, as long as none is here: somebody may install one.
async fn prepare_all(sandbox: Weak<dyn Sandbox>, languages: Vec<Arc<Language>>, toolchains: Arc<Toolchains>) {
    loop {
        for language in &languages {
            let Some(sandbox) = sandbox.upgrade() else { return };
            match sandbox.prepare(language).await {
                Ok(()) => toolchains.found(language.name()),
                Err(error) => {
                    toolchains.missed(language.name());
                    tracing::warn!(language = language.name(), %error, "cannot be judged here; it is tried again when asked for");
                }
            }
        }
        toolchains.looked_for(languages.iter().map(|language| language.name()));
        tracing::info!("all languages were looked at");
        if !toolchains.all_are_missing() {
            return;
        }
        tokio::time::sleep(LOOKED_FOR_AGAIN_AFTER).await;
    }
}
