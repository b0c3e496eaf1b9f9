//! What the native sandbox costs, beside what it is compared with in the same run. `tests/run bench` runs it.
//!
//! First `tribunal bench` itself, then a request with a hundred tests beside the same hundred executions without any judge.
//! Each price has a goal, and a bound that is looser, because a busy machine is nobody's fault: beyond its goal a price is
//! said to miss it, beyond its bound it fails the run.

use std::io::Write;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tribunal_producer::client::Client;
use tribunal_shared::config::{SandboxKind, Settings};
use tribunal_shared::queue::memory::MemoryBroker;
use tribunal_shared::result::ExecutionStatus;
use tribunal_shared::store::Event;
use tribunal_shared::store::memory::MemoryStore;
use tribunal_tests::requests::request;
use tribunal_tests::{PATIENCE, binary};
use tribunal_worker::run::{Parts, run};
use tribunal_worker::sandbox::{self, native};

const TESTS: usize = 100;
const ROUNDS: usize = 9;
const PROGRAM: &str =
    "#include <iostream>\nint main() { int a, b; std::cin >> a >> b; std::cout << a + b << '\\n'; }\n";

/// How a price compares with what it stands beside.
struct Price {
    what: &'static str,
    ratio: f64,
    goal: f64,
    bound: f64,
}

fn main() -> ExitCode {
    native::serve_if_zygote();
    let mut prices = of_single_runs();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let ratio = runtime.block_on(of_a_hundred_tests());
    prices.push(Price { what: "100 tests of a request, times two shell loops", ratio, goal: 2.0, bound: 3.0 });

    let mut failed = false;
    for Price { what, ratio, goal, bound } in prices {
        let verdict = match ratio {
            _ if ratio <= goal => "ok",
            _ if ratio <= bound => "misses its goal",
            _ => "FAILED",
        };
        failed |= ratio > bound;
        println!("{what}: {ratio:.3} (goal: at most {goal:.3}) {verdict}");
    }
    ExitCode::from(u8::from(failed))
}

/// By `tribunal bench`, for people and for us.
fn of_single_runs() -> Vec<Price> {
    let output = Command::new(binary("tribunal")).args(["bench", "--json"]).output().expect("tribunal bench runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "tribunal bench: {said}");
    let numbers: serde_json::Value = serde_json::from_slice(&output.stdout).expect("tribunal bench prints JSON");
    println!("{numbers:#}");
    let kinds = numbers["kinds"].as_array().expect("kinds");
    let of = |kind: &str, pointer: &str| {
        let row =
            kinds.iter().find(|row| row["kind"] == kind).unwrap_or_else(|| panic!("{kind} is missing: {numbers}"));
        row.pointer(pointer).and_then(serde_json::Value::as_f64)
    };
    let native = |pointer: &str| of("native", pointer).unwrap_or_else(|| panic!("native was not measured: {numbers}"));
    let mut prices = vec![
        Price {
            what: "native, back to back, times bare",
            ratio: native("/back_to_back/times_bare"),
            goal: 2.2,
            bound: 3.3,
        },
        Price { what: "native, with gaps, times bare", ratio: native("/gapped/times_bare"), goal: 3.0, bound: 4.5 },
    ];
    for (what, kind, goal, bound) in [
        ("native, times docker", "docker", 1.0 / 60.0, 1.0 / 40.0),
        ("native, times isolate", "isolate", 1.0 / 2.5, 1.0 / 1.7),
        ("native, times bwrap", "bwrap", 1.0 / 2.0, 1.0 / 1.3),
    ] {
        match of(kind, "/back_to_back/p50_ms") {
            Some(other) => prices.push(Price { what, ratio: native("/back_to_back/p50_ms") / other, goal, bound }),
            None => println!("{what}: {kind} is not here to compare with"),
        }
    }
    prices
}

/// From the end of the compilation to the stored result, times the same executions by two loops of a shell.
async fn of_a_hundred_tests() -> f64 {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut settings = Settings::defaults();
    settings.sandbox.kind = SandboxKind::Native;
    settings.sandbox.workspace_root = folder.path().join("work");
    let broker = Arc::new(MemoryBroker::new(&settings.queue));
    let store = Arc::new(MemoryStore::new(&settings.store));
    let client = Client::new(broker.clone(), store.clone(), &settings);
    let sandbox = sandbox::from_config(&settings).await.expect("the sandbox starts");
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let parts = Parts::new(broker, store, sandbox, settings, "prices");
    let worker = tokio::spawn(run(parts, async {
        let _ = stopped.await;
    }));

    let program = compile(folder.path());
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        ours.push(judged(&client).await);
        theirs.push(looped(&program));
    }
    drop(stop);
    worker.await.expect("the worker stops");
    let ratio = median(ours.iter().zip(&theirs).map(|(ours, theirs)| ours.as_secs_f64() / theirs.as_secs_f64()));
    let ms = |times: &[Duration]| median(times.iter().map(|time| time.as_secs_f64() * 1000.0));
    println!("{TESTS} tests: judged in {:.0} ms, executed in {:.0} ms", ms(&ours), ms(&theirs));
    ratio
}

async fn judged(client: &Client) -> Duration {
    let tests = vec![("20 22", "42"); TESTS];
    let id = client.submit(request("cpp", PROGRAM, &tests)).await.expect("the request is accepted");
    let mut compiled = None;
    let seen = |event: &Event| {
        if let Event::Compiled { .. } = event {
            compiled = Some(Instant::now());
        }
    };
    let result = client.follow(&id, Some(PATIENCE), seen).await.expect("the store answers").expect("a result");
    let took = compiled.expect("it was compiled").elapsed();
    assert_eq!(result.status, ExecutionStatus::AllPassed, "{result:?}");
    took
}

fn compile(folder: &Path) -> std::path::PathBuf {
    let (source, program) = (folder.join("solution.cpp"), folder.join("solution"));
    std::fs::File::create(&source).and_then(|mut file| file.write_all(PROGRAM.as_bytes())).expect("the source");
    std::fs::write(folder.join("input"), "20 22").expect("the input");
    let compiler = Command::new("g++").args(["-O2", "-std=c++17", "-o"]).arg(&program).arg(&source).status();
    assert!(compiler.expect("g++ runs").success());
    program
}

/// Two loops at the same time, half of the executions each.
fn looped(program: &Path) -> Duration {
    let half = TESTS / 2;
    let each = format!("for i in $(seq {half}); do ./solution < input > /dev/null; done");
    let began = Instant::now();
    let status = Command::new("bash")
        .args(["-c", &format!("({each}) & ({each}) & wait")])
        .current_dir(program.parent().expect("a folder"))
        .status();
    assert!(status.expect("bash runs").success());
    began.elapsed()
}

fn median(numbers: impl Iterator<Item = f64>) -> f64 {
    let mut numbers: Vec<_> = numbers.collect();
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}
