//! One container, from creation to removal.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bollard::container::{AttachContainerResults, LogOutput};
use bollard::errors::Error;
use bollard::models::{
    ContainerCreateBody, HealthConfig, HostConfig, HostConfigLogConfig, Mount, MountType, ResourcesUlimits,
};
use bollard::query_parameters::{
    AttachContainerOptionsBuilder, CreateContainerOptionsBuilder, KillContainerOptionsBuilder,
    WaitContainerOptionsBuilder,
};
use futures_util::future::{Fuse, FusedFuture, FutureExt};
use futures_util::stream::StreamExt;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior};
use tribunal_shared::retry::Delays;

use super::super::output::Capture;
use super::super::{Access, Exit, Invocation, Killed, OnOverflow, Outcome, SandboxError, Workspace};
use super::report::{self, Nonce, Report};
use super::{ANSWERED_WITHIN, REQUEST_LABEL, Shared, WORKER_LABEL, call, explain, remove};

/// The system calls that programs may make, of the machine's own architecture only. Stricter than Docker's list (no
/// namespaces, no 32-bit calls, no keyrings, ptrace or io_uring), and shorter, so that a container starts sooner.
const SECCOMP: &str = include_str!("../seccomp.json");
const WORKSPACE: &str = "/workspace";
const INIT: &str = "/.tribunal-init";
/// How a run is cut short, and how long each step may take. Process 1 ends everything and still reports; if it does not,
/// the kernel ends it too; a daemon that cannot bring that about is in trouble.
const KILLING: [(&str, Duration); 2] = [("SIGTERM", Duration::from_secs(2)), ("SIGKILL", Duration::from_secs(15))];
/// How often a writable workspace is measured.
const MEASURED_EVERY: Duration = Duration::from_millis(100);
const SIGKILL: i32 = 9;
const CPU_PERIOD_US: i64 = 100_000;
/// The kernel takes no less.
const SMALLEST_QUOTA_US: i64 = 1_000;
const MIB: u64 = 1 << 20;

pub async fn run(shared: &Arc<Shared>, invocation: &Invocation<'_>) -> Result<Outcome, SandboxError> {
    let nonce = Nonce::new();
    // From here on whatever happens, also our being dropped, ends with the container's removal, which nobody needs to wait
    // for: it is a third of all the work.
    let mut container = Container::new(shared, invocation.workspace.clone());
    container.create(describe(shared, invocation, &nonce)).await?;
    container.watch(invocation, &nonce).await
}

/// Everything that keeps the program in its place, in one list.
fn describe(shared: &Shared, invocation: &Invocation<'_>, nonce: &Nonce) -> ContainerCreateBody {
    let limits = &invocation.limits;
    let settings = &shared.settings;
    let mut environment = vec![
        "HOME=/tmp".to_owned(),
        "LANG=C.UTF-8".to_owned(),
        format!("{}={}", report::NONCE_VARIABLE, nonce.as_str()),
    ];
    environment.extend(invocation.environment.iter().map(|(name, value)| format!("{name}={value}")));
    let bind = |source: &std::path::Path, target: &str, read_only| Mount {
        typ: Some(MountType::BIND),
        source: Some(source.display().to_string()),
        target: Some(target.into()),
        read_only: Some(read_only),
        ..Mount::default()
    };
    let scratch = format!("rw,noexec,nosuid,nodev,mode=1777,nr_inodes=16k,size={}m", limits.tmp_mb);
    let ulimit = |name: &str, value: u64| ResourcesUlimits {
        name: Some(name.into()),
        soft: Some(value as i64),
        hard: Some(value as i64),
    };
    let memory = (limits.memory_mb * MIB) as i64;
    let host_config = HostConfig {
        memory: Some(memory),
        memory_swap: Some(memory),
        // Not nano_cpus, which the daemon refuses when it is more than the machine has.
        cpu_period: Some(CPU_PERIOD_US),
        cpu_quota: Some(((limits.cpus * CPU_PERIOD_US as f64) as i64).max(SMALLEST_QUOTA_US)),
        // One more for process 1, which is ours.
        pids_limit: Some(limits.processes as i64 + 1),
        readonly_rootfs: Some(true),
        mounts: Some(vec![
            bind(invocation.workspace.path(), WORKSPACE, invocation.access == Access::ReadOnly),
            bind(&shared.init, INIT, true),
        ]),
        // No shared memory from the daemon, which would make and mount it each time: a small one like /tmp.
        ipc_mode: Some("none".into()),
        tmpfs: Some(HashMap::from([("/tmp".into(), scratch.clone()), ("/dev/shm".into(), scratch)])),
        cap_drop: Some(vec!["ALL".into()]),
        security_opt: Some(vec!["no-new-privileges".into(), format!("seccomp={SECCOMP}")]),
        ulimits: Some(vec![
            // Not 0, which does not stop a dump that is piped to a program of the host's; 1 stops both kinds.
            ulimit("core", 1),
            ulimit("nofile", 1024),
            ulimit("fsize", settings.workspace_limit_mb.max(limits.tmp_mb) * MIB),
        ]),
        log_config: Some(HostConfigLogConfig { typ: Some("none".into()), config: None }),
        runtime: Some(settings.docker.runtime.clone()).filter(|runtime| !runtime.is_empty()),
        ..HostConfig::default()
    };
    ContainerCreateBody {
        image: Some(invocation.language.image.clone()),
        entrypoint: Some(vec![INIT.into()]),
        cmd: Some(invocation.command.to_vec()),
        working_dir: Some(WORKSPACE.into()),
        user: Some(shared.user.next()),
        env: Some(environment),
        hostname: Some("sandbox".into()),
        // Not network mode `none`, for which the daemon starts a helper process each time. Both give a network
        // namespace with nothing in it but lo.
        network_disabled: Some(true),
        healthcheck: Some(HealthConfig { test: Some(vec!["NONE".into()]), ..HealthConfig::default() }),
        open_stdin: Some(true),
        stdin_once: Some(true),
        attach_stdin: Some(true),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        labels: Some(HashMap::from([
            (WORKER_LABEL.into(), shared.tenancy.name().into()),
            (REQUEST_LABEL.into(), invocation.request.to_string()),
        ])),
        host_config: Some(host_config),
        ..ContainerCreateBody::default()
    }
}

/// A container that exists, or may exist: from before its creation until its removal.
struct Container {
    shared: Arc<Shared>,
    name: String,
    /// Mounted in it.
    workspace: Workspace,
    creating: Option<JoinHandle<Result<(), SandboxError>>>,
}

impl Container {
    fn new(shared: &Arc<Shared>, workspace: Workspace) -> Self {
        shared.containers.fetch_add(1, Ordering::Relaxed);
        Self { shared: Arc::clone(shared), name: shared.next_run_name(), workspace, creating: None }
    }

    /// In a task of its own, which goes on when we are dropped: the daemon would create it all the same, and a removal
    /// that comes too early finds nothing.
    async fn create(&mut self, body: ContainerCreateBody) -> Result<(), SandboxError> {
        let (docker, name) = (self.shared.docker.clone(), self.name.clone());
        let creating = self.creating.insert(self.shared.removals.spawn(async move {
            let options = CreateContainerOptionsBuilder::new().name(&name).build();
            call("creating a container", docker.create_container(Some(options), body)).await.map(drop)
        }));
        let created = creating.await.map_err(|error| SandboxError::failed("creating a container", error))?;
        self.creating = None;
        created
    }

    /// Starts the program and reads what it writes, until process 1 has put its marks under both streams: then the
    /// program and all that it started are gone. Without the marks, until the streams end.
    async fn watch(&self, invocation: &Invocation<'_>, nonce: &Nonce) -> Result<Outcome, SandboxError> {
        let docker = &self.shared.docker;
        let limits = &invocation.limits;
        let attach = AttachContainerOptionsBuilder::new().stream(true).stdin(true).stdout(true).stderr(true).build();
        let streams = call("attaching to a container", docker.attach_container(&self.name, Some(attach))).await?;
        let AttachContainerResults { mut output, input } = streams;
        let mut seen = Seen {
            stdout: Capture::new(limits.output_bytes, report::NONCE_LENGTH),
            stderr: Capture::new(limits.output_bytes, report::LENGTH),
            killed: None,
            began: Instant::now(),
        };

        // All at once. The program runs, and may be done, before the daemon says that it has started it; and the daemon
        // answers a kill only when the output has been taken off its hands.
        let mut starting = call("starting a container", docker.start_container(&self.name, None)).boxed().fuse();
        let mut feeding = feed(input, invocation.stdin).boxed().fuse();
        let mut killing = Fuse::terminated();
        let mut signals = KILLING.iter();
        let mut deadline = Box::pin(tokio::time::sleep(ANSWERED_WITHIN));
        let mut measure = tokio::time::interval_at(Instant::now() + MEASURED_EVERY, MEASURED_EVERY);
        measure.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let mut kill_for = None;
            tokio::select! {
                chunk = output.next() => match chunk {
                    Some(Ok(LogOutput::StdErr { message })) => seen.stderr.push(&message),
                    Some(Ok(other)) => seen.stdout.push(&other.into_bytes()),
                    Some(Err(error)) => return Err(SandboxError::failed("reading a container's output", explain(&error))),
                    None => {
                        // The one who would have told is dead, or was never started. The daemon can say which.
                        if !starting.is_terminated() {
                            starting.await?;
                        }
                        let oom = self.inquire().await?;
                        return seen.without_report(oom);
                    }
                },
                started = &mut starting => {
                    started?;
                    seen.began = Instant::now();
                    if seen.killed.is_none() {
                        deadline.as_mut().reset(seen.began + limits.wall);
                    }
                }
                () = &mut feeding => {}
                killed = &mut killing => killed?,
                () = &mut deadline => kill_for = Some(Killed::WallTime),
                _ = measure.tick(), if invocation.access == Access::ReadWrite && seen.killed.is_none() => {
                    if invocation.workspace.exceeds(self.shared.settings.workspace_limit_mb * MIB) {
                        kill_for = Some(Killed::Disk);
                    }
                }
            }
            if seen.stdout.tail() == nonce.as_str().as_bytes()
                && let Some(report) = Report::parse(seen.stderr.tail(), nonce)
            {
                if report.stopped && seen.killed.is_none() {
                    // A daemon that shuts down, or a person. It says nothing about the program.
                    return Err(SandboxError::failed("running a program", "its container was stopped from outside"));
                }
                return Ok(seen.with_report(report, limits.wall));
            }
            if limits.on_overflow == OnOverflow::Kill && seen.killed.is_none() && seen.overflowed() {
                kill_for = kill_for.or(Some(Killed::Output));
            }
            if let Some(reason) = kill_for {
                let Some((signal, patience)) = signals.next() else {
                    return Err(SandboxError::failed("killing a container", "it does not end"));
                };
                seen.killed.get_or_insert(reason);
                killing = self.kill(signal).boxed().fuse();
                deadline.as_mut().reset(Instant::now() + *patience);
            }
        }
    }

    async fn kill(&self, signal: &str) -> Result<(), SandboxError> {
        let options = KillContainerOptionsBuilder::new().signal(signal).build();
        let killed = async {
            match self.shared.docker.kill_container(&self.name, Some(options)).await {
                // It ended by itself in the same moment.
                Err(Error::DockerResponseServerError { status_code: 404 | 409, .. }) => Ok(()),
                other => other,
            }
        };
        call("killing a container", killed).await
    }

    /// Waits until the container has ended, and says whether that was for want of memory.
    async fn inquire(&self) -> Result<bool, SandboxError> {
        let docker = &self.shared.docker;
        let wait = WaitContainerOptionsBuilder::new().condition("not-running").build();
        let state = async {
            match docker.wait_container(&self.name, Some(wait)).next().await {
                // A non-zero exit code is an error to this client, but not to us.
                None | Some(Ok(_) | Err(Error::DockerContainerWaitError { .. })) => {}
                Some(Err(error)) => return Err(error),
            }
            Ok(docker.inspect_container(&self.name, None).await?.state)
        };
        let state = call("asking how a container ended", state).await?;
        Ok(state.is_some_and(|state| state.oom_killed == Some(true)))
    }
}

impl Drop for Container {
    /// The removal goes on without us, whether the run came to its end, something failed or its future was dropped.
    fn drop(&mut self) {
        let (shared, workspace) = (Arc::clone(&self.shared), self.workspace.clone());
        let (name, creating) = (std::mem::take(&mut self.name), self.creating.take());
        self.shared.removals.spawn(async move {
            if let Some(creating) = creating {
                let _ = creating.await;
            }
            // A daemon that is away comes back, and what it left running with it.
            let mut delays = Delays::new(Duration::from_millis(500), Duration::from_secs(5));
            while let Err(error) = remove(&shared.docker, &name).await {
                tracing::warn!(container = name, %error, "a container could not be removed; trying again");
                tokio::time::sleep(delays.next_delay()).await;
            }
            shared.containers.fetch_sub(1, Ordering::Relaxed);
            drop(workspace);
        });
    }
}

/// Writes all of stdin and closes it. A program that does not read it, or closes it, is free to do so.
async fn feed(mut input: Pin<Box<dyn AsyncWrite + Send>>, stdin: &[u8]) {
    if input.write_all(stdin).await.is_ok() {
        let _ = input.shutdown().await;
    }
}

/// What was seen from outside.
struct Seen {
    stdout: Capture,
    stderr: Capture,
    killed: Option<Killed>,
    began: Instant,
}

impl Seen {
    fn overflowed(&self) -> bool {
        self.stdout.overflowed() || self.stderr.overflowed()
    }

    fn with_report(self, report: Report, wall_limit: Duration) -> Outcome {
        // It may have come to its own end, in time, while our signal was on its way.
        let by_itself = report.exit != Exit::Signal(SIGKILL) && report.wall <= wall_limit;
        let killed = self.killed.filter(|reason| !(*reason == Killed::WallTime && by_itself));
        Outcome {
            // The signal that we sent says nothing about the program.
            exit: if killed.is_some() { Exit::Unknown } else { report.exit },
            wall: report.wall,
            cpu: report.cpu,
            peak_memory_bytes: report.peak_memory_bytes,
            oom: report.oom,
            killed,
            stdout: self.stdout.finish(report::NONCE_LENGTH),
            stderr: self.stderr.finish(report::LENGTH),
        }
    }

    /// Process 1 was killed too: by us, when it did not listen, or for want of memory. Anything else is not the program's
    /// doing.
    fn without_report(self, oom: bool) -> Result<Outcome, SandboxError> {
        if self.killed.is_none() && !oom {
            return Err(SandboxError::failed("running a program", "its container was ended by somebody else"));
        }
        Ok(Outcome {
            exit: Exit::Unknown,
            wall: self.began.elapsed(),
            cpu: Duration::ZERO,
            peak_memory_bytes: 0,
            oom,
            killed: self.killed,
            stdout: self.stdout.finish(0),
            stderr: self.stderr.finish(0),
        })
    }
}
