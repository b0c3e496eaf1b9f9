//! A fleet of one, within this process: the only place of the producer that knows the worker.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt as _, StreamExt as _, future, stream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tribunal_shared::config::{PullPolicy, Settings};
use tribunal_shared::language::Language;
use tribunal_shared::queue::Broker;
use tribunal_shared::queue::memory::MemoryBroker;
use tribunal_shared::request::RequestId;
use tribunal_shared::store::ResultStore;
use tribunal_shared::store::memory::MemoryStore;
use tribunal_worker::run::{self, Parts};
use tribunal_worker::sandbox::{
    self, Access, Exit, Finding, Invocation, OnOverflow, RunLimits, Sandbox, SandboxError,
};

use super::exit::{Failure, complain};
use crate::client::Client;

/// Removing what still runs takes a moment; a daemon that takes longer is in trouble.
const CLEAN_UP_WITHIN: Duration = Duration::from_secs(10);
const NAME: &str = "this process";

impl From<SandboxError> for Failure {
    fn from(error: SandboxError) -> Self {
        Self::Infrastructure(error.to_string())
    }
}

/// Queue and store of one process. What is submitted waits until [`Embedded::work`].
pub struct Embedded {
    broker: Arc<dyn Broker>,
    store: Arc<dyn ResultStore>,
    settings: Settings,
}

impl Embedded {
    pub fn new(mut settings: Settings) -> Self {
        // When we are told to stop, nobody waits for the result any more.
        settings.worker.grace_s = 0;
        Self {
            broker: Arc::new(MemoryBroker::default()),
            store: Arc::new(MemoryStore::new(&settings.store)),
            settings,
        }
    }

    pub fn client(&self) -> Client {
        Client::new(Arc::clone(&self.broker), Arc::clone(&self.store), &self.settings)
    }

    /// Has a worker at work until `done` is, or a signal stops us.
    pub async fn work<T>(
        self,
        language: &Language,
        done: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let sandbox = sandbox::from_config(&self.settings).await?;
        // Here and not only in the worker: a toolchain that cannot be had is not worth three attempts.
        cleanly(sandbox.as_ref(), async { Ok(sandbox.prepare(language).await?) }).await?;

        let (stop, stopped) = oneshot::channel::<()>();
        let parts = Parts {
            broker: self.broker,
            store: self.store,
            sandbox: Arc::clone(&sandbox),
            settings: self.settings,
            name: NAME.into(),
        };
        let worker = tokio::spawn(run::run(parts, async move {
            let _ = stopped.await;
        }));
        let mut ended = worker.map(drop).shared();
        let outcome = tokio::select! {
            outcome = done => outcome,
            () = interrupted() => Err(Failure::Interrupted),
            () = &mut ended => Err(Failure::Infrastructure("the worker ended before the result came".into())),
        };
        drop(stop);
        clean_up(async {
            ended.await;
            sandbox.close().await;
        })
        .await;
        outcome
    }
}

/// The version of each toolchain, in the order of `languages`.
pub async fn versions(
    mut settings: Settings,
    languages: &[Arc<Language>],
) -> Result<Vec<Result<String, String>>, Failure> {
    // Looking is no reason to fetch gigabytes.
    settings.sandbox.docker.pull_policy = PullPolicy::Never;
    let sandbox = sandbox::from_config(&settings).await?;
    let ask = stream::iter(languages)
        .map(|language| version(sandbox.as_ref(), language, &settings))
        .buffered(settings.worker.slots())
        .collect();
    cleanly(sandbox.as_ref(), async { Ok(ask.await) }).await
}

async fn version(sandbox: &dyn Sandbox, language: &Language, settings: &Settings) -> Result<String, String> {
    let asked = async {
        sandbox.prepare(language).await?;
        let request = RequestId::generate();
        let workspace = sandbox.workspace(&request).await?;
        sandbox
            .run(Invocation {
                request: &request,
                language,
                workspace: &workspace,
                access: Access::ReadOnly,
                command: &language.version,
                environment: &language.env,
                stdin: &[],
                limits: RunLimits {
                    wall: Duration::from_secs(20),
                    memory_mb: 512,
                    cpus: 1.0,
                    processes: settings.sandbox.max_processes,
                    tmp_mb: settings.sandbox.tmp_mb,
                    output_bytes: 4096,
                    on_overflow: OnOverflow::Discard,
                },
            })
            .await
    };
    let outcome = asked.await.map_err(|error| error.to_string())?;
    if outcome.exit != Exit::Code(0) {
        return Err(format!("{} ended with {:?}", language.version.join(" "), outcome.exit));
    }
    let said = [outcome.stdout.bytes, outcome.stderr.bytes].concat();
    let said = String::from_utf8_lossy(&said);
    let first = said.lines().find(|line| !line.trim().is_empty());
    first.map(|line| line.trim().to_owned()).ok_or_else(|| format!("{} said nothing", language.version.join(" ")))
}

/// Does something with a sandbox, until a signal stops it, and leaves nothing behind.
async fn cleanly<T>(sandbox: &dyn Sandbox, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    // Dropped at the end of this statement if interrupted, which is what sets off the removal of what it ran.
    let outcome = tokio::select! {
        outcome = work => outcome,
        () = interrupted() => Err(Failure::Interrupted),
    };
    clean_up(sandbox.close()).await;
    outcome
}

async fn clean_up(cleaned: impl Future<Output = ()>) {
    tokio::select! {
        () = cleaned => {}
        // Whoever asks twice does not want to wait.
        () = interrupted() => {}
        () = tokio::time::sleep(CLEAN_UP_WITHIN) => {
            complain("what still ran could not be removed in time; the next worker on this machine will do it");
        }
    }
}

/// Ctrl-C, being told to end, or the end of the terminal.
async fn interrupted() {
    let mut signals = Vec::new();
    for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
        match signal(kind) {
            Ok(signal) => signals.push(signal),
            Err(error) => complain(&format!("signals cannot be caught: {error}")),
        }
    }
    let received = signals.iter_mut().map(|signal| Box::pin(signal.recv()));
    future::select_all(received).await;
}

/// What the sandbox needs, and how it was found.
pub async fn findings(settings: &Settings) -> Vec<(String, Result<String, String>)> {
    let findings = sandbox::diagnose(settings).await;
    findings.into_iter().map(|Finding { what, found }| (what, found.map_err(|error| error.to_string()))).collect()
}
