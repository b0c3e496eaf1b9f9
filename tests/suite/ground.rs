//! Runs single programs in a sandbox, without a worker around it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tribunal_shared::language::Language;
use tribunal_shared::request::RequestId;
use tribunal_worker::sandbox::{Access, Exit, Invocation, OnOverflow, Outcome, RunLimits, SandboxError, Workspace};

use crate::world::World;

pub const LIMITS: RunLimits = RunLimits {
    wall: Duration::from_secs(20),
    memory_mb: 256,
    cpus: 1.0,
    processes: 64,
    tmp_mb: 16,
    output_bytes: 65536,
    on_overflow: OnOverflow::Kill,
};

/// A sandbox under test.
pub struct Ground {
    pub world: World,
    language: Arc<Language>,
}

/// What to run, apart from where.
#[derive(Clone)]
pub struct Run {
    pub command: Vec<String>,
    pub stdin: Vec<u8>,
    pub access: Access,
    pub environment: BTreeMap<String, String>,
    pub limits: RunLimits,
}

impl Run {
    pub fn command(words: &[&str]) -> Self {
        Self {
            command: words.iter().map(|word| (*word).to_owned()).collect(),
            stdin: Vec::new(),
            access: Access::ReadOnly,
            environment: BTreeMap::new(),
            limits: LIMITS,
        }
    }

    pub fn bash(script: &str) -> Self {
        Self::command(&["bash", "-c", script])
    }

    pub fn python(code: &str) -> Self {
        Self::command(&["python3", "-c", code])
    }

    /// As a compiler would.
    pub fn writing(self) -> Self {
        Self { access: Access::ReadWrite, ..self }
    }
}

impl Ground {
    pub fn new(world: World) -> Self {
        // Of a language only the root file system matters here.
        let language = world.settings.languages().get("python").expect("python is built in");
        Self { world, language }
    }

    pub async fn workspace(&self) -> Workspace {
        self.world.sandbox.workspace(&RequestId::generate()).await.unwrap()
    }

    pub async fn run(&self, run: Run) -> Outcome {
        let workspace = self.workspace().await;
        self.run_in(&workspace, run).await
    }

    pub async fn run_in(&self, workspace: &Workspace, run: Run) -> Outcome {
        self.try_in(workspace, run).await.unwrap_or_else(|error| panic!("not the program's failure: {error}"))
    }

    pub async fn try_in(&self, workspace: &Workspace, run: Run) -> Result<Outcome, SandboxError> {
        let invocation = Invocation {
            request: &RequestId::generate(),
            language: &self.language,
            workspace,
            access: run.access,
            command: &run.command,
            environment: &run.environment,
            stdin: &run.stdin,
            limits: run.limits,
        };
        self.world.sandbox.run(invocation).await
    }
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What a program printed that is expected to end well.
pub fn printed(outcome: &Outcome) -> String {
    assert_eq!(outcome.exit, Exit::Code(0), "stderr: {}", text(&outcome.stderr.bytes));
    text(&outcome.stdout.bytes)
}
