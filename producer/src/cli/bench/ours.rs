//! Our sandboxes, used exactly as a test uses them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tribunal_shared::config::{PullPolicy, SandboxKind, Settings};
use tribunal_shared::language::Language;
use tribunal_shared::request::RequestId;
use tribunal_worker::sandbox::{self, Access, Exit, Invocation, OnOverflow, RunLimits, Sandbox, Workspace};

use super::super::args::BenchKind;
use super::Runner;
use super::measure::ms;
use super::program::Program;

const PROGRAM: &str = "program";

struct Ours {
    /// First, because they lie in the sandbox's folder and are dropped before it.
    workspaces: Vec<Workspace>,
    sandbox: Arc<dyn Sandbox>,
    language: Arc<Language>,
    request: RequestId,
    command: Vec<String>,
    limits: RunLimits,
}

pub async fn start(
    kind: BenchKind,
    program: &Program,
    settings: &Settings,
    lanes: usize,
) -> Result<Arc<dyn Runner>, String> {
    let mut settings = settings.clone();
    settings.sandbox.kind = if kind == BenchKind::Docker { SandboxKind::Docker } else { SandboxKind::Native };
    // To measure is no reason to fetch gigabytes.
    settings.sandbox.docker.pull_policy = PullPolicy::Never;
    // Any will do: the program brings all that it needs.
    let language = settings.languages().get("c").ok_or("the settings have no language c")?;
    let ready = async {
        let sandbox = sandbox::from_config(&settings).await?;
        if kind == BenchKind::Docker {
            sandbox.prepare(&language).await?;
        }
        let request = RequestId::generate();
        let mut workspaces = Vec::new();
        for _ in 0..lanes {
            let workspace = sandbox.workspace(&request).await?;
            workspace.write_program(PROGRAM, &program.bytes)?;
            workspaces.push(workspace);
        }
        Ok::<_, sandbox::SandboxError>((sandbox, request, workspaces))
    };
    let (sandbox, request, workspaces) = ready.await.map_err(|error| error.to_string())?;
    Ok(Arc::new(Ours {
        sandbox,
        language,
        request,
        workspaces,
        command: vec![format!("./{PROGRAM}")],
        limits: RunLimits {
            wall: Duration::from_millis(settings.limits.timeout_ms.default + settings.sandbox.wall_allowance_ms),
            memory_mb: settings.limits.memory_mb.default,
            cpus: settings.limits.cpu.default,
            processes: settings.sandbox.max_processes,
            tmp_mb: settings.sandbox.tmp_mb,
            output_bytes: settings.sandbox.output_limit_kb as usize * 1024,
            on_overflow: OnOverflow::Kill,
        },
    }))
}

#[async_trait]
impl Runner for Ours {
    async fn batch(&self, lane: usize, runs: usize) -> Result<Vec<f64>, String> {
        let mut times = Vec::with_capacity(runs);
        for _ in 0..runs {
            let began = Instant::now();
            self.run(lane).await?;
            times.push(ms(began.elapsed()));
        }
        Ok(times)
    }

    async fn settle(&self) {
        self.sandbox.settle().await;
    }
}

impl Ours {
    async fn run(&self, lane: usize) -> Result<(), String> {
        let invocation = Invocation {
            request: &self.request,
            language: &self.language,
            workspace: &self.workspaces[lane],
            access: Access::ReadOnly,
            command: &self.command,
            environment: &self.language.env,
            stdin: &[],
            limits: self.limits,
        };
        match self.sandbox.run(invocation).await {
            Ok(outcome) if outcome.exit == Exit::Code(0) => Ok(()),
            Ok(outcome) => Err(format!("the program ended with {:?}", outcome.exit)),
            Err(error) => Err(error.to_string()),
        }
    }
}
