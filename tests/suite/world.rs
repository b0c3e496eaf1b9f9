//! A sandbox, and a worker on it, with queue and store of this process.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tribunal_producer::client::Client;
use tribunal_shared::config::Settings;
use tribunal_shared::queue::Broker;
use tribunal_shared::queue::memory::MemoryBroker;
use tribunal_shared::request::ExecutionRequest;
use tribunal_shared::result::ExecutionResult;
use tribunal_shared::store::ResultStore;
use tribunal_shared::store::memory::MemoryStore;
use tribunal_tests::{PATIENCE, docker_text};
use tribunal_worker::run::{self, Parts};
use tribunal_worker::sandbox::native::{self, Defence};
use tribunal_worker::sandbox::{self, Sandbox, SandboxError};

#[derive(Clone)]
pub enum Kind {
    Docker,
    Native { root: String },
}

/// A sandbox with a folder of its own.
pub struct World {
    pub settings: Settings,
    pub sandbox: Arc<dyn Sandbox>,
    pub folder: tempfile::TempDir,
}

impl World {
    pub async fn start(kind: &Kind) -> Self {
        Self::start_without(kind, &[]).await.unwrap_or_else(|error| panic!("the sandbox does not start: {error}"))
    }

    /// With defences switched off; only the native sandbox can do that.
    pub async fn start_without(kind: &Kind, without: &[Defence]) -> Result<Self, SandboxError> {
        let folder = tempfile::Builder::new().prefix("tribunal-suite-").tempdir().expect("a temporary folder");
        // Whoever gets out of the sandbox shall be stopped by nothing else.
        open_to_all(folder.path());
        let path = folder.path().join("tribunal.toml");
        std::fs::write(&path, settings_text(kind, folder.path())).expect("the settings file");
        let settings = Settings::load(Some(&path)).expect("the suite's settings are valid");
        let sandbox = match without {
            [] => sandbox::from_config(&settings).await?,
            without => native::start(&settings, without).await?,
        };
        Ok(Self { settings, sandbox, folder })
    }
}

pub fn open_to_all(path: &std::path::Path) {
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(path, mode).expect("a folder of ours can be opened to all");
}

/// Where the native sandboxes of this process have their cgroups.
pub fn own_cgroup() -> String {
    format!("tribunal-suite-{}", std::process::id())
}

fn settings_text(kind: &Kind, folder: &std::path::Path) -> String {
    let get = |name: &str| std::env::var(name).ok();
    let image = get("TEST_IMAGE");
    let sandbox = match kind {
        Kind::Docker => {
            let missing = "is not set: run this through `tests/run`";
            let host = get("TEST_DOCKER_HOST").unwrap_or_else(|| panic!("TEST_DOCKER_HOST {missing}"));
            let image = image.as_deref().unwrap_or_else(|| panic!("TEST_IMAGE {missing}"));
            format!("sandbox.kind = \"docker\"\n{}", docker_text(&host, image))
        }
        Kind::Native { root } => {
            let mut text = format!("sandbox.kind = \"native\"\nsandbox.native.root = \"{root}\"\n");
            if let Some(roots) = get("TEST_ROOTS") {
                text += &format!("sandbox.native.roots = \"{roots}\"\n");
            }
            if let Some(image) = &image {
                for language in Settings::defaults().languages().iter() {
                    text += &format!("languages.{}.image = \"{image}\"\n", language.name());
                }
            }
            text
        }
    };
    let image = image.unwrap_or_default();
    format!(
        r#"{sandbox}
sandbox.workspace_root = "{root}/work"
sandbox.native.cgroup = "{cgroup}"
sandbox.wall_allowance_ms = 200
sandbox.workspace_limit_mb = 64
worker.slots = 2
worker.max_attempts = 1
languages.c.compile.timeout_ms = 4000
languages.cpp.compile.timeout_ms = 4000

# A language whose compiler is the submitted code itself; it leaves what it likes as the program.
[languages.forge]
image = "{image}"
source = "forge.py"
version = ["true"]
compile.command = ["python3", "forge.py"]
compile.timeout_ms = 2000
run = ["./program"]

# The same, and the program repeats what the compiler found.
[languages.lookout]
image = "{image}"
source = "lookout.py"
version = ["true"]
compile.command = ["bash", "-c", "python3 lookout.py > found"]
compile.timeout_ms = 20000
run = ["cat", "found"]
"#,
        root = folder.display(),
        cgroup = own_cgroup(),
    )
}

/// A worker at work in a world.
pub struct Court {
    pub world: World,
    client: Client,
    stop: oneshot::Sender<()>,
    worker: JoinHandle<()>,
}

impl Court {
    pub fn open(world: World) -> Self {
        let broker: Arc<dyn Broker> = Arc::new(MemoryBroker::new(&world.settings.queue));
        let store: Arc<dyn ResultStore> = Arc::new(MemoryStore::new(&world.settings.store));
        let client = Client::new(Arc::clone(&broker), Arc::clone(&store), &world.settings);
        let (stop, stopped) = oneshot::channel::<()>();
        let parts = Parts::new(broker, store, Arc::clone(&world.sandbox), world.settings.clone(), "suite");
        let worker = tokio::spawn(run::run(parts, async move {
            let _ = stopped.await;
        }));
        Self { world, client, stop, worker }
    }

    pub async fn judge(&self, request: ExecutionRequest) -> Result<ExecutionResult, String> {
        let id = self.client.submit(request).await.map_err(|error| format!("not accepted: {error}"))?;
        match self.client.wait(&id, Some(PATIENCE)).await {
            Ok(Some(result)) => Ok(result),
            Ok(None) => Err(format!("no result within {PATIENCE:?}")),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Returns when the worker has stopped and everything is cleared away.
    pub async fn close(self) {
        let _ = self.stop.send(());
        let stopped = tokio::time::timeout(Duration::from_secs(60), self.worker).await;
        stopped.expect("the worker stops when asked to").expect("the worker does not panic");
        self.world.sandbox.settle().await;
    }
}
