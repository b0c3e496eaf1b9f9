//! What a test costs: our Docker sandbox beside the sequence of calls that the specification's `ContainerRunner` makes,
//! in the same run, in turns, on the same daemon and image.
//!
//! `tests/run bench` runs it. The goal is that ours costs at most 0.65 of the other: a ratio, because the machine's own
//! speed is nobody's promise. It is held only just: above the goal the bench says so, above 0.75 it fails.
//! `--json` prints the numbers for a script, `--rounds N` changes how many are taken.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use bollard::Docker;
use bollard::errors::Error;
use bollard::models::{ContainerCreateBody, HostConfig};
use bollard::query_parameters::{
    AttachContainerOptionsBuilder, CreateContainerOptionsBuilder, LogsOptionsBuilder, RemoveContainerOptionsBuilder,
    StatsOptionsBuilder, WaitContainerOptionsBuilder,
};
use futures_util::StreamExt;
use tokio::io::AsyncWriteExt;
use tribunal_shared::config::Settings;
use tribunal_shared::request::RequestId;
use tribunal_tests::{Ground, Services, settings_text};
use tribunal_worker::sandbox::{self, Access, Exit, Invocation, OnOverflow, RunLimits, Sandbox, Workspace};

const GOAL: f64 = 0.65;
const AT_MOST: f64 = 0.75;
const MEMORY_MB: u64 = 256;
const COMMAND: [&str; 1] = ["true"];

fn main() -> ExitCode {
    sandbox::native::serve_if_zygote();
    match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime.block_on(bench()),
        Err(error) => {
            eprintln!("bench: cannot start: {error}");
            ExitCode::from(3)
        }
    }
}

async fn bench() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let rounds = match arguments.iter().position(|word| word == "--rounds").map(|at| arguments.get(at + 1)) {
        None => 60,
        Some(count) => match count.and_then(|count| count.parse().ok()).filter(|count| *count > 0) {
            Some(count) => count,
            None => {
                eprintln!("bench: --rounds takes a number above 0");
                return ExitCode::from(2);
            }
        },
    };

    let services = Services::from_environment();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("tribunal.toml");
    std::fs::write(&path, settings_text(&services, Ground::Docker, folder.path())).expect("the settings file");
    let settings = Settings::load(Some(&path)).expect("the bench's settings are valid");
    let docker = Docker::connect_with_host(&services.docker).expect("the daemon under test");
    let sandbox = sandbox::from_config(&settings).await.expect("the sandbox starts");
    let id = RequestId::generate();
    let workspace = sandbox.workspace(&id).await.expect("a workspace");

    let (mut ours, mut ours_whole, mut theirs) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds + 2 {
        let began = Instant::now();
        run_ours(&*sandbox, &settings, &id, &workspace).await;
        let our_time = began.elapsed();
        sandbox.settle().await;
        let our_whole_time = began.elapsed();
        let began = Instant::now();
        run_theirs(&docker, &services.image, &workspace).await.expect("the specification's sequence works");
        let their_time = began.elapsed();
        // The first rounds warm the caches.
        if round >= 2 {
            ours.push(our_time);
            ours_whole.push(our_whole_time);
            theirs.push(their_time);
        }
    }
    // Of each round by itself: the two runs of a round see the same machine, those of different rounds may not.
    let ratios = ours.iter().zip(&theirs).map(|(ours, theirs)| ours.as_secs_f64() / theirs.as_secs_f64());
    let ratio = median(ratios.collect());
    let (ours, ours_whole, theirs) = (median(ours), median(ours_whole), median(theirs));
    drop(workspace);
    sandbox.settle().await;

    let ms = |time: Duration| time.as_secs_f64() * 1000.0;
    if arguments.iter().any(|word| word == "--json") {
        let numbers = serde_json::json!({
            "rounds": rounds, "ours_p50_ms": ms(ours), "ours_with_removal_p50_ms": ms(ours_whole),
            "theirs_p50_ms": ms(theirs), "ratio": ratio, "goal": GOAL,
        });
        println!("{numbers}");
    } else {
        println!("one test in Docker, median of {rounds} rounds in turns");
        println!("  the specification's calls  {:8.1} ms", ms(theirs));
        println!("  ours                       {:8.1} ms", ms(ours));
        println!("  ours, removal included     {:8.1} ms", ms(ours_whole));
        println!("  ratio                      {ratio:8.3}    (goal: {GOAL}, fails above {AT_MOST})");
    }
    if ratio > GOAL {
        eprintln!("bench: the goal of {GOAL} was missed");
    }
    if ratio <= AT_MOST { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn median<T: PartialOrd + Copy>(mut values: Vec<T>) -> T {
    values.sort_by(|a, b| a.partial_cmp(b).expect("times are numbers"));
    values[values.len() / 2]
}

async fn run_ours(sandbox: &dyn Sandbox, settings: &Settings, id: &RequestId, workspace: &Workspace) {
    let language = settings.languages().get("c").expect("C is built in");
    let outcome = sandbox
        .run(Invocation {
            request: id,
            language: &language,
            workspace,
            access: Access::ReadOnly,
            command: &COMMAND.map(str::to_owned),
            environment: &language.env,
            stdin: b"input",
            limits: RunLimits {
                wall: Duration::from_secs(10),
                memory_mb: MEMORY_MB,
                cpus: 1.0,
                processes: 64,
                tmp_mb: 64,
                output_bytes: 65536,
                on_overflow: OnOverflow::Kill,
            },
        })
        .await
        .expect("our sandbox runs");
    assert_eq!(outcome.exit, Exit::Code(0));
}

/// Create, start, attach and send stdin, wait, logs twice, stats, remove: call by call what the specification does.
async fn run_theirs(docker: &Docker, image: &str, workspace: &Workspace) -> Result<(), Error> {
    let memory = Some((MEMORY_MB << 20) as i64);
    let body = ContainerCreateBody {
        image: Some(image.into()),
        cmd: Some(COMMAND.map(str::to_owned).to_vec()),
        working_dir: Some("/workspace".into()),
        network_disabled: Some(true),
        open_stdin: Some(true),
        host_config: Some(HostConfig {
            binds: Some(vec![format!("{}:/workspace:ro", workspace.path().display())]),
            memory,
            memory_swap: memory,
            cpu_period: Some(100_000),
            cpu_quota: Some(100_000),
            readonly_rootfs: Some(true),
            security_opt: Some(vec!["no-new-privileges".into()]),
            cap_drop: Some(vec!["ALL".into()]),
            pids_limit: Some(64),
            ..HostConfig::default()
        }),
        ..ContainerCreateBody::default()
    };
    let id = docker.create_container(Some(CreateContainerOptionsBuilder::new().build()), body).await?.id;
    docker.start_container(&id, None).await?;
    let attach = AttachContainerOptionsBuilder::new().stdin(true).stream(true).build();
    let mut streams = docker.attach_container(&id, Some(attach)).await?;
    // The program may be gone by now.
    let _ = streams.input.write_all(b"input").await;
    let _ = streams.input.shutdown().await;
    let wait = WaitContainerOptionsBuilder::new().condition("not-running").build();
    docker.wait_container(&id, Some(wait)).next().await.transpose()?;
    for stdout in [true, false] {
        let options = LogsOptionsBuilder::new().stdout(stdout).stderr(!stdout).build();
        let mut logs = docker.logs(&id, Some(options));
        while let Some(line) = logs.next().await {
            line?;
        }
    }
    docker.stats(&id, Some(StatsOptionsBuilder::new().stream(false).build())).next().await.transpose()?;
    docker.remove_container(&id, Some(RemoveContainerOptionsBuilder::new().force(true).build())).await
}
