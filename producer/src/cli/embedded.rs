//! A fleet of one, within this process: the only place of the producer that knows the worker.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt as _, StreamExt as _, stream};
use tokio::sync::oneshot;
use tribunal_shared::config::{PullPolicy, Settings};
use tribunal_shared::language::Language;
use tribunal_shared::queue::Broker;
use tribunal_shared::queue::memory::MemoryBroker;
use tribunal_shared::request::{Job, RequestId};
use tribunal_shared::store::ResultStore;
use tribunal_shared::store::memory::MemoryStore;
use tribunal_worker::run::{self, Parts};
use tribunal_worker::sandbox::{
    self, Access, Exit, Finding, Invocation, OnOverflow, Outcome, RunLimits, Sandbox, SandboxError,
};
use tribunal_worker::trial::{self, Trial};

use super::exit::{Failure, complain};
use super::signals::Signals;
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
        let (broker, store) = (MemoryBroker::new(&settings.queue), MemoryStore::new(&settings.store));
        Self { broker: Arc::new(broker), store: Arc::new(store), settings }
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
        let mut signals = Signals::listen()?;
        let sandbox = signals.or(start(&self.settings)).await?;
        // Here and not only in the worker: a toolchain that cannot be had is not worth three attempts.
        signals.or(async { Ok(sandbox.prepare(language).await?) }).await?;

        let (stop, stopped) = oneshot::channel::<()>();
        let parts = Parts::new(self.broker, self.store, Arc::clone(&sandbox), self.settings, NAME);
        let worker = tokio::spawn(run::run(parts, async move {
            let _ = stopped.await;
        }));
        let ended = worker.map(drop).shared();
        let outcome = signals
            .or(async {
                tokio::select! {
                    outcome = done => outcome,
                    () = ended.clone() => Err(Failure::Infrastructure("the worker ended before the result came".into())),
                }
            })
            .await;
        drop(stop);
        let worker_and_sandbox = async {
            ended.await;
            sandbox.settle().await;
        };
        clean_up(worker_and_sandbox, signals).await;
        outcome
    }
}

/// Runs a job's code once, without its tests.
pub async fn try_out(settings: &Settings, job: &Job, stdin: &[u8]) -> Result<Trial, Failure> {
    let mut signals = Signals::listen()?;
    let sandbox = signals.or(start(settings)).await?;
    let trial = signals.or(async { Ok(trial::run(job, stdin, sandbox.as_ref(), &settings.sandbox).await?) }).await;
    clean_up(sandbox.settle(), signals).await;
    trial
}

/// What was found out about a toolchain.
pub enum Version {
    Known(String),
    /// Nothing is wrong, but it was never needed here.
    NotHereYet,
    Failed(String),
}

/// The version of each toolchain, in the order of `languages`.
pub async fn versions(mut settings: Settings, languages: &[Arc<Language>]) -> Result<Vec<Version>, Failure> {
    // Looking is no reason to fetch gigabytes.
    settings.sandbox.docker.pull_policy = PullPolicy::Never;
    let mut signals = Signals::listen()?;
    let sandbox = signals.or(start(&settings)).await?;
    let ask = stream::iter(languages)
        .map(|language| version(sandbox.as_ref(), language, &settings))
        .buffered(settings.worker.slots())
        .collect();
    let versions = signals.or(async { Ok(ask.await) }).await;
    clean_up(sandbox.settle(), signals).await;
    versions
}

async fn start(settings: &Settings) -> Result<Arc<dyn Sandbox>, Failure> {
    Ok(sandbox::from_config(settings).await?)
}

async fn version(sandbox: &dyn Sandbox, language: &Language, settings: &Settings) -> Version {
    match sandbox.prepare(language).await {
        Ok(()) => {}
        Err(SandboxError::Unfit { .. }) => return Version::NotHereYet,
        Err(error) => return Version::Failed(error.to_string()),
    }
    let command = language.version.join(" ");
    match ask(sandbox, language, settings).await {
        Ok(Outcome { exit: Exit::Code(0), stdout, stderr, .. }) => {
            let said = String::from_utf8_lossy(&[stdout.bytes, stderr.bytes].concat()).into_owned();
            match said.lines().find(|line| !line.trim().is_empty()) {
                Some(line) => Version::Known(line.trim().to_owned()),
                None => Version::Failed(format!("`{command}` said nothing")),
            }
        }
        Ok(Outcome { exit, .. }) => Version::Failed(format!("`{command}` ended with {exit:?}")),
        Err(error) => Version::Failed(error.to_string()),
    }
}

async fn ask(sandbox: &dyn Sandbox, language: &Language, settings: &Settings) -> Result<Outcome, SandboxError> {
    let request = RequestId::generate();
    let workspace = sandbox.workspace(&request).await?;
    let invocation = Invocation {
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
    };
    sandbox.run(invocation).await
}

/// Waits until what was stopped half-way is removed.
async fn clean_up(cleaned: impl Future<Output = ()>, mut signals: Signals) {
    tokio::select! {
        () = cleaned => {}
        // Whoever asks twice does not want to wait.
        () = signals.next() => {}
        () = tokio::time::sleep(CLEAN_UP_WITHIN) => {
            complain("what still ran could not be removed in time; the next worker on this machine will do it");
        }
    }
}

/// What the sandbox needs, and how it was found.
pub async fn findings(settings: &Settings) -> Vec<(String, Result<String, String>)> {
    let findings = sandbox::diagnose(settings).await;
    findings.into_iter().map(|Finding { what, found }| (what, found.map_err(|error| error.to_string()))).collect()
}
