//! The native sandbox: a container for every compile and every test, made by the worker itself in about the time that the
//! program takes to start.
//!
//! | file | process | what |
//! |---|---|---|
//! | `run` | worker | one run, from its order to its outcome |
//! | `pool` | worker | the zygotes that wait |
//! | `toolchain` | worker | what a language runs on |
//! | `cgroup` | worker | limits and counters |
//! | `toolchain`, `diagnosis` | worker | what is there, and what is not |
//! | `message` | all | what they say to each other |
//! | `zygote` | zygote | builds the root (`root`, `mount`), then makes one process 1 after the other (`clone`) |
//! | `init` | process 1 | mounts what is the run's own, starts the program, waits, ends what is left |
//! | `enter` | the program's | gives up everything (`confine`, `seccomp`), then becomes the program |

mod cgroup;
mod clone;
mod confine;
mod diagnosis;
mod enter;
mod init;
mod message;
mod mount;
mod pool;
mod root;
mod run;
mod seccomp;
mod toolchain;
mod zygote;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tokio::task::AbortHandle;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};
use tribunal_shared::config::{SandboxSettings, Settings};
use tribunal_shared::language::{Language, Root};
use tribunal_shared::request::RequestId;

use super::tenancy::{Kind, Tenancy};
use super::{Invocation, Outcome, Sandbox, SandboxError, Workspace, workspace};
use cgroup::Cgroups;
use message::RootFolder;
use pool::Pool;
use toolchain::Toolchain;

pub use diagnosis::diagnose;
pub use zygote::serve_if_zygote;

/// How often dead neighbours are looked for.
const SWEEP_EVERY: Duration = Duration::from_secs(10);

/// One layer of the sandbox. Tests switch one off to see that its loss is noticed; no setting can. (There is none for the
/// pid namespace and the mount namespace: without them a run could end or change the whole machine.)
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Defence {
    Capabilities,
    CgroupNamespace,
    CleanEnvironment,
    ClosedDescriptors,
    CoreLimit,
    CpuLimit,
    EndOfEverybody,
    FileSizeLimit,
    IpcNamespace,
    Landlock,
    MemoryLimit,
    NetworkNamespace,
    NoNewPrivileges,
    OpenFilesLimit,
    OwnInodes,
    OwnProc,
    ProcessLimit,
    ReadOnlyRoot,
    ReadOnlyWorkspace,
    ScratchLimit,
    Seccomp,
    StackLimit,
    UnprivilegedUser,
    UserNamespace,
    UtsNamespace,
    WorkspaceLimit,
}

pub struct NativeSandbox {
    shared: Arc<Shared>,
    sweeper: AbortHandle,
}

struct Shared {
    settings: SandboxSettings,
    without: Vec<Defence>,
    pool: Arc<Pool>,
    tenancy: Tenancy,
    /// Runs that were dropped half-way, until they are gone.
    ending: TaskTracker,
}

/// `without` is for tests alone.
pub async fn start(settings: &Settings, without: &[Defence]) -> Result<Arc<dyn Sandbox>, SandboxError> {
    diagnosis::privileges()?;
    diagnosis::cgroups()?;
    let sandbox = &settings.sandbox;
    let tenancy = Tenancy::start(&sandbox.workspace_root, Kind::Native)?;
    let cgroups = Cgroups::start(&sandbox.native.cgroup, tenancy.name(), without)?;
    let pool = Arc::new(Pool::new(sandbox, settings.worker.slots(), cgroups, without));
    let shared = Arc::new(Shared {
        settings: sandbox.clone(),
        without: without.to_vec(),
        pool,
        tenancy,
        ending: TaskTracker::new(),
    });
    // Whether sandboxes can be made is seen now, not when somebody waits for a verdict.
    let root = match Root::parse(&sandbox.native.root) {
        Ok(Root::Folder(path)) => RootFolder::Folder(path),
        _ => RootFolder::Host,
    };
    shared.pool.keep(shared.pool.start(&root).await?);
    shared.sweep();
    let sweeper = tokio::spawn(sweep_for_ever(Arc::downgrade(&shared))).abort_handle();
    Ok(Arc::new(NativeSandbox { shared, sweeper }))
}

impl Drop for NativeSandbox {
    fn drop(&mut self) {
        self.sweeper.abort();
    }
}

#[async_trait]
impl Sandbox for NativeSandbox {
    async fn prepare(&self, language: &Language) -> Result<(), SandboxError> {
        Toolchain::of(language, &self.shared.settings.native)?.look_for(language)
    }

    async fn workspace(&self, _request: &RequestId) -> Result<Workspace, SandboxError> {
        Workspace::create(self.shared.tenancy.workspace_path())
    }

    async fn run(&self, invocation: Invocation<'_>) -> Result<Outcome, SandboxError> {
        run::run(&self.shared, &invocation).await
    }

    async fn check(&self) -> Result<(), SandboxError> {
        workspace::probe(self.shared.tenancy.workspace_path())
    }

    async fn settle(&self) {
        self.shared.ending.close();
        self.shared.ending.wait().await;
        self.shared.ending.reopen();
    }
}

impl Shared {
    /// Removes the cgroups and folders of workers that died on this host. Their processes died with them.
    fn sweep(&self) {
        for dead in self.tenancy.abandoned() {
            let name = dead.name.clone();
            match self.pool.cgroups().remove_of_dead(&name).and_then(|()| dead.remove()) {
                Ok(()) => info!(dead_worker = name, "removed what a dead worker left"),
                // It is tried again, by us or by a neighbour.
                Err(error) => warn!(dead_worker = name, %error, "what a dead worker left could not be removed"),
            }
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if !self.ending.is_empty() {
            // We end before our runs do. Whoever finds our place abandoned removes what is left of them.
            self.tenancy.leave();
        }
    }
}

async fn sweep_for_ever(shared: std::sync::Weak<Shared>) {
    loop {
        tokio::time::sleep(SWEEP_EVERY).await;
        let Some(shared) = shared.upgrade() else { return };
        shared.sweep();
    }
}
