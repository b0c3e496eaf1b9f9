//! The Docker sandbox: a container for every compile and every test, through the Docker API.
//!
//! | file | what |
//! |---|---|
//! | `container` | one container from creation to removal |
//! | `report` | what its first process tells at the end |
//! | `images` | pulling |
//! | `export` | the files of an image |

mod container;
pub(crate) mod export;
mod images;
mod report;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bollard::Docker;
use bollard::errors::Error;
use bollard::models::SystemInfo;
use bollard::query_parameters::{ListContainersOptionsBuilder, RemoveContainerOptionsBuilder};
use tokio::task::AbortHandle;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};
use tribunal_shared::config::{DockerSettings, SandboxSettings, Settings};
use tribunal_shared::language::Language;
use tribunal_shared::request::RequestId;

use super::tenancy::{Abandoned, Kind, Tenancy};
use super::{Finding, Invocation, Outcome, Sandbox, SandboxError, Workspace, guest, host_swaps, workspace};
use images::Images;

const WORKER_LABEL: &str = "tribunal.worker";
const REQUEST_LABEL: &str = "tribunal.request";

/// A daemon that has not answered a greeting by then is as good as down.
const GREETED_WITHIN: Duration = Duration::from_secs(4);
/// For every other call. Starting a container on a busy machine takes a while.
const ANSWERED_WITHIN: Duration = Duration::from_secs(30);
/// The daemon needs a moment to notice that a container has ended.
const TRIED_AGAIN_AFTER: Duration = Duration::from_millis(50);
/// Nobody waits longer than that for a daemon that is away.
const SETTLED_WITHIN: Duration = Duration::from_secs(10);
/// How often dead neighbours are looked for.
const SWEEP_EVERY: Duration = Duration::from_secs(10);

pub struct DockerSandbox {
    shared: Arc<Shared>,
    images: Images,
    sweeper: AbortHandle,
}

struct Shared {
    docker: Docker,
    settings: SandboxSettings,
    tenancy: Tenancy,
    /// `init/main.rs`, where the daemon can mount it from.
    init: PathBuf,
    user: GuestUser,
    runs: AtomicU64,
    /// Those that exist, or may exist.
    containers: AtomicUsize,
    /// Creations, which must not be cut short, and removals, which nobody waits for.
    removals: TaskTracker,
}

impl DockerSandbox {
    pub async fn start(settings: &SandboxSettings) -> Result<Self, SandboxError> {
        let (docker, info) = greet(&settings.docker).await?;
        check_daemon(info, &settings.docker)?;
        let tenancy = Tenancy::start(&settings.workspace_root, Kind::Docker)?;
        let init = tenancy.install("init", report::INIT)?;
        let shared = Arc::new(Shared {
            docker: docker.clone(),
            settings: settings.clone(),
            tenancy,
            init,
            user: GuestUser::from_settings(&settings.docker),
            runs: AtomicU64::new(0),
            containers: AtomicUsize::new(0),
            removals: TaskTracker::new(),
        });
        shared.sweep().await;
        let sweeper = tokio::spawn(sweep_for_ever(Arc::downgrade(&shared))).abort_handle();
        Ok(Self { shared, images: Images::new(docker, settings.docker.pull_policy), sweeper })
    }
}

impl Drop for DockerSandbox {
    fn drop(&mut self) {
        self.sweeper.abort();
    }
}

#[async_trait]
impl Sandbox for DockerSandbox {
    async fn prepare(&self, language: &Language) -> Result<(), SandboxError> {
        self.images.prepare(&language.image).await
    }

    async fn workspace(&self, _request: &RequestId) -> Result<Workspace, SandboxError> {
        Workspace::create(self.shared.tenancy.workspace_path())
    }

    async fn run(&self, invocation: Invocation<'_>) -> Result<Outcome, SandboxError> {
        let image = &invocation.language.image;
        let outcome = container::run(&self.shared, &invocation).await;
        if outcome.is_err() {
            self.images.forget(image);
        }
        outcome
    }

    async fn check(&self) -> Result<(), SandboxError> {
        let unreachable = |reason: String| unreachable(&self.shared.settings.docker, reason);
        match tokio::time::timeout(GREETED_WITHIN, self.shared.docker.ping()).await {
            Ok(answered) => drop(answered.map_err(|error| unreachable(explain(&error)))?),
            Err(_) => return Err(unreachable(format!("no answer within {} s", GREETED_WITHIN.as_secs()))),
        }
        workspace::probe(self.shared.tenancy.workspace_path())
    }

    async fn settle(&self) {
        self.shared.removals.close();
        // What is left then is removed by a neighbour or a successor.
        let _ = tokio::time::timeout(SETTLED_WITHIN, self.shared.removals.wait()).await;
        self.shared.removals.reopen();
    }
}

impl Shared {
    /// Unique on this host; the worker's name in front tells whose it is.
    fn next_run_name(&self) -> String {
        format!("{}-{}", self.tenancy.name(), self.runs.fetch_add(1, Ordering::Relaxed))
    }

    /// Removes the containers and folders of workers that died on this host.
    async fn sweep(&self) {
        for dead in self.tenancy.abandoned() {
            let name = dead.name.clone();
            match self.clear(dead).await {
                Ok(containers) => info!(dead_worker = name, containers, "removed what a dead worker left"),
                // It is tried again, by us or by a neighbour.
                Err(error) => warn!(dead_worker = name, %error, "what a dead worker left could not be removed"),
            }
        }
    }

    async fn clear(&self, dead: Abandoned) -> Result<usize, SandboxError> {
        let label = format!("{WORKER_LABEL}={}", dead.name);
        let options = ListContainersOptionsBuilder::new()
            .all(true)
            .filters(&HashMap::from([("label", vec![label.as_str()])]))
            .build();
        let left = call("listing containers", self.docker.list_containers(Some(options))).await?;
        let count = left.len();
        for id in left.into_iter().filter_map(|container| container.id) {
            remove(&self.docker, &id).await?;
        }
        dead.remove().map_err(|error| SandboxError::failed("removing a dead worker's folder", error))?;
        Ok(count)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if self.containers.load(Ordering::Relaxed) > 0 {
            // We end before our containers do. Whoever finds our place abandoned removes them.
            self.tenancy.leave();
        }
    }
}

async fn sweep_for_ever(shared: std::sync::Weak<Shared>) {
    loop {
        tokio::time::sleep(SWEEP_EVERY).await;
        let Some(shared) = shared.upgrade() else { return };
        shared.sweep().await;
    }
}

async fn remove(docker: &Docker, id: &str) -> Result<(), SandboxError> {
    // Volumes too: an image may declare some, and each container would leave its own.
    let options = RemoveContainerOptionsBuilder::new().force(true).v(true).build();
    let removed = async {
        loop {
            match docker.remove_container(id, Some(options.clone())).await {
                // Gone already, or somebody else is at it.
                Err(Error::DockerResponseServerError { status_code: 404 | 409, .. }) => return Ok(()),
                // It ended by itself while the daemon was about to kill it, and the daemon gave up.
                Err(Error::DockerResponseServerError { message, .. }) if message.contains("is not running") => {
                    tokio::time::sleep(TRIED_AGAIN_AFTER).await;
                }
                other => return other,
            }
        }
    };
    call("removing a container", removed).await
}

/// A call to the daemon, which may be hung.
async fn call<T>(doing: &str, answer: impl Future<Output = Result<T, Error>>) -> Result<T, SandboxError> {
    match tokio::time::timeout(ANSWERED_WITHIN, answer).await {
        Ok(answer) => answer.map_err(|error| SandboxError::failed(doing, explain(&error))),
        Err(_) => Err(SandboxError::failed(doing, format!("no answer within {} s", ANSWERED_WITHIN.as_secs()))),
    }
}

/// What the kernel counts by user is counted for each container alone if each has a user of its own.
enum GuestUser {
    /// A fresh one for each run.
    Fresh,
    Fixed(String),
}

impl GuestUser {
    /// A worker that is not root can remove only what its own user left.
    fn from_settings(settings: &DockerSettings) -> Self {
        let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
        match settings.user.as_str() {
            "" if uid.is_root() => Self::Fresh,
            "" => Self::Fixed(format!("{}:{}", uid.as_raw(), gid.as_raw())),
            user => Self::Fixed(user.into()),
        }
    }

    fn next(&self) -> String {
        match self {
            Self::Fresh => {
                let id = guest::fresh_user();
                format!("{id}:{id}")
            }
            Self::Fixed(user) => user.clone(),
        }
    }
}

/// The daemon's own words, where there are any.
fn explain(error: &Error) -> String {
    match error {
        Error::DockerResponseServerError { message, .. } => message.clone(),
        _ => innermost(error).to_string(),
    }
}

/// Where it began: what stands around it says only where it passed.
fn innermost<'a>(error: &'a (dyn std::error::Error + 'static)) -> &'a (dyn std::error::Error + 'static) {
    std::iter::successors(Some(error), |error| error.source()).last().unwrap_or(error)
}

/// Reaches the daemon, agrees on a version of its API and hears what it says about itself.
fn unreachable(settings: &DockerSettings, reason: String) -> SandboxError {
    SandboxError::Unreachable {
        what: "the Docker daemon",
        address: settings.host.clone(),
        reason,
        remedy: "Start it, or set sandbox.docker.host (TRIBUNAL_SANDBOX__DOCKER__HOST) to where it listens",
    }
}

async fn greet(settings: &DockerSettings) -> Result<(Docker, SystemInfo), SandboxError> {
    let unreachable = |reason: String| unreachable(settings, reason);
    // Asked first, because the client's own error does not say what is wrong with the path.
    if let Some(path) = settings.host.strip_prefix("unix://") {
        tokio::net::UnixStream::connect(path).await.map_err(|error| unreachable(error.to_string()))?;
    }
    let docker = Docker::connect_with_host(&settings.host).map_err(|error| unreachable(explain(&error)))?;
    let answers = async {
        let docker = docker.negotiate_version().await?;
        let info = docker.info().await?;
        Ok((docker, info))
    };
    match tokio::time::timeout(GREETED_WITHIN, answers).await {
        Ok(answers) => answers.map_err(|error| unreachable(explain(&error))),
        Err(_) => Err(unreachable(format!("no answer within {} s", GREETED_WITHIN.as_secs()))),
    }
}

/// Whether the daemon can enforce what we promise. Says what it is.
fn check_daemon(info: SystemInfo, settings: &DockerSettings) -> Result<String, SandboxError> {
    let unfit =
        |problem: &str, remedy: &str| Err(SandboxError::Unfit { problem: problem.into(), remedy: remedy.into() });
    if info.memory_limit != Some(true) || info.cpu_cfs_quota != Some(true) || info.pids_limit != Some(true) {
        return unfit(
            "the Docker daemon cannot limit memory, CPU time and processes",
            "Enable the memory, cpu and pids cgroup controllers in its kernel",
        );
    }
    if info.swap_limit == Some(false) && host_swaps() {
        return unfit(
            "the Docker daemon cannot limit swap, so a program could use more memory than its limit",
            "Boot with swapaccount=1, or turn swap off",
        );
    }
    let security = info.security_options.unwrap_or_default();
    if !security.iter().any(|option| option.contains("seccomp")) {
        return unfit("the Docker daemon runs without seccomp", "Use a daemon and a kernel with seccomp");
    }
    if !settings.runtime.is_empty() && !info.runtimes.unwrap_or_default().contains_key(&settings.runtime) {
        return unfit(
            &format!("the Docker daemon knows no runtime {:?}", settings.runtime),
            "Install and register it with the daemon, or change sandbox.docker.runtime",
        );
    }
    Ok(format!(
        "{} (cgroup v{})",
        info.server_version.unwrap_or_default(),
        info.cgroup_version.map(|version| version.to_string()).unwrap_or_default()
    ))
}

/// Looks at everything the sandbox needs, without changing anything.
pub async fn diagnose(settings: &Settings) -> Vec<Finding> {
    let finding = |what: &str, found| Finding { what: what.into(), found };
    let (docker, info) = match greet(&settings.sandbox.docker).await {
        Ok(answers) => answers,
        Err(error) => return vec![finding("Docker", Err(error))],
    };
    let mut findings = vec![finding("Docker", check_daemon(info, &settings.sandbox.docker))];
    let workspace = Tenancy::start(&settings.sandbox.workspace_root, Kind::Docker);
    findings.push(finding("workspace", workspace.map(|_| settings.sandbox.workspace_root.display().to_string())));
    let images = Images::new(docker, settings.sandbox.docker.pull_policy);
    for language in settings.languages().iter() {
        findings.push(finding(&format!("image for {}", language.name()), images.look_for(&language.image).await));
    }
    findings
}
