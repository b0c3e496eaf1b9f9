//! The walls of the sandbox stand, for compilers as for programs; and nothing is left of what was inside.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tribunal_shared::request::{ExecutionRequest, RequestId, TestCase};
use tribunal_shared::result::{ExecutionResult, ExecutionStatus, TestResult, TestStatus};
use tribunal_shared::store::Event;
use tribunal_tests::requests::{request, test};
use tribunal_tests::{Fleet, PATIENCE, Services, Worker, eventually};

/// A language whose compiler is the submitted code itself. It leaves what it finds in the workspace, where the program,
/// the same code again, repeats it before its own findings.
fn probe() -> String {
    format!(
        "[languages.probe]\nimage = \"{}\"\nsource = \"probe.py\"\nversion = [\"true\"]\n\
         compile.command = [\"bash\", \"-c\", \"python3 probe.py > found\"]\n\
         run = [\"bash\", \"-c\", \"cat found; python3 probe.py\"]\n",
        Services::from_environment().image
    )
}

/// What compilers find, and what programs find.
struct Facts {
    compiling: Value,
    running: Value,
}

impl Facts {
    fn each(&self) -> [&Value; 2] {
        [&self.compiling, &self.running]
    }
}

async fn facts(what: &str) -> Facts {
    let mut fleet = Fleet::with(&probe()).await;
    fleet.start_worker();
    facts_in(&fleet, &format!("WHAT = '{what}'")).await
}

async fn facts_in(fleet: &Fleet, header: &str) -> Facts {
    let code = format!("{header}\n{}", include_str!("programs/sandbox/facts.py"));
    let result =
        fleet.judge(ExecutionRequest { timeout_ms: Some(30_000), ..request("probe", &code, &[("", "")]) }).await;
    assert_eq!(result.test_results.len(), 1, "{result:?}");
    let test = &result.test_results[0];
    assert_eq!(test.exit_code, Some(0), "{test:?}");
    let mut lines = test.actual_output.lines().map(|line| serde_json::from_str(line).unwrap());
    Facts { compiling: lines.next().unwrap(), running: lines.next().unwrap() }
}

async fn started_with(settings: &str) -> Fleet {
    let mut fleet = Fleet::with(settings).await;
    fleet.start_worker();
    fleet
}

async fn judge_one(fleet: &Fleet, request: ExecutionRequest) -> TestResult {
    let mut result = fleet.judge(request).await;
    assert_eq!(result.test_results.len(), 1, "{result:?}");
    result.test_results.remove(0)
}

async fn still_judges(fleet: &Fleet) {
    let result = fleet.judge(request("bash", "cat", &[("fine", "fine")])).await;
    assert_eq!(result.status, ExecutionStatus::AllPassed, "{result:?}");
}

#[tokio::test]
async fn a_compiler_can_write_to_its_workspace_and_a_program_to_nothing_but_scratch() {
    let Facts { compiling, running } = facts("files").await;
    assert_eq!(compiling["writable"], json!(["/dev/mqueue", "/dev/shm", "/tmp", "/workspace", "/workspace/found"]));
    assert_eq!(running["writable"], json!(["/dev/mqueue", "/dev/shm", "/tmp"]));
    for (facts, workspace) in [(compiling, Value::Null), (running, json!("EROFS"))] {
        let expected = json!({
            "/": "EROFS", "/etc": "EROFS", "/usr/bin": "EROFS", "/var/tmp": "EROFS", "/run/lock": "EROFS",
            "/workspace": workspace, "/tmp": null, "/dev/shm": null,
        });
        assert_eq!(facts["attempts"], expected);
    }
}

#[tokio::test]
async fn scratch_space_is_bounded_and_starts_no_programs() {
    let facts = facts("scratch").await;
    for (facts, mib) in [(facts.compiling, 128), (facts.running, 64)] {
        for folder in ["/tmp", "/dev/shm"] {
            let scratch = &facts[folder];
            assert_eq!(scratch["mib"], mib, "{folder}");
            assert!((10_000..=16_384).contains(&scratch["files"].as_i64().unwrap()), "{folder}: {scratch}");
            assert_eq!(scratch["start"], "EACCES", "{folder}");
        }
    }
}

#[tokio::test]
async fn nothing_survives_a_test_in_scratch_or_in_the_kernel() {
    let fleet = Fleet::started().await;
    let code = "ls -A /tmp /dev/shm /dev/mqueue; wc -l < /proc/sysvipc/msg\n\
                touch /tmp/left /dev/shm/left /dev/mqueue/left && ipcmk --queue > /dev/null && echo left";
    let found = "/dev/mqueue:\n\n/dev/shm:\n\n/tmp:\n1\nleft";
    for _ in 0..2 {
        let result = fleet.judge(request("bash", code, &[("", found), ("", found), ("", found)])).await;
        assert_eq!(result.status, ExecutionStatus::AllPassed, "{result:?}");
    }
}

#[tokio::test]
async fn there_is_no_network() {
    let fleet = started_with(&probe()).await;
    let redis = fleet.services.redis.trim_start_matches("redis://").trim_end_matches('/').to_owned();
    let (host, port) = redis.rsplit_once(':').unwrap();
    std::net::TcpStream::connect(&redis).expect("outside of the sandbox it can be reached");
    let target = json!([host, port.parse::<u16>().unwrap()]);
    for facts in facts_in(&fleet, &format!("WHAT = 'network'\nTARGET = {target}")).await.each() {
        assert_eq!(facts, &json!({"interfaces": ["lo"], "routes": [], "unix_sockets": [], "reached": false}));
    }
}

#[tokio::test]
async fn guests_have_no_privileges() {
    let mut users = std::collections::HashSet::new();
    for facts in facts("privileges").await.each() {
        let status = &facts["status"];
        // A user of its own, so that no two guests share what the kernel counts by user.
        assert!(users.insert(status["Uid"].to_string()), "{users:?}");
        for user in [&status["Uid"], &status["Gid"]].into_iter().flat_map(|ids| ids.as_array().unwrap()) {
            assert!(user.as_str().unwrap().parse::<u64>().unwrap() >= 2_000_000_000, "{user}");
        }
        for (field, expected) in [
            ("CapInh", json!(["0000000000000000"])),
            ("CapPrm", json!(["0000000000000000"])),
            ("CapEff", json!(["0000000000000000"])),
            ("CapBnd", json!(["0000000000000000"])),
            ("CapAmb", json!(["0000000000000000"])),
            ("NoNewPrivs", json!(["1"])),
            ("Seccomp", json!(["2"])),
        ] {
            assert_eq!(status[field], expected, "{field}");
        }
        assert_eq!(facts["allowed"], json!([]));
    }
}

#[tokio::test]
async fn guests_see_only_their_own_processes() {
    for processes in facts("processes").await.each() {
        let numbers: Vec<_> = processes.as_array().unwrap().iter().map(|number| number.as_u64().unwrap()).collect();
        assert!(numbers.len() <= 3 && numbers.contains(&1), "init, the shell and its child: {numbers:?}");
        assert!(numbers.iter().all(|number| *number < 100), "{numbers:?}");
    }
}

#[tokio::test]
async fn guests_inherit_nothing_of_the_workers_environment() {
    let fleet = Fleet::with(&probe()).await;
    let worker = Worker::start(&fleet.settings_file(), &[("PLANTED", "needle"), ("LD_LIBRARY_PATH", "/needle")]);
    worker.await_line("connected to the queue");
    for environment in facts_in(&fleet, "WHAT = 'environment'").await.each() {
        assert!(!environment.to_string().contains("needle"), "{environment}");
        let mut names: Vec<_> = environment.as_object().unwrap().keys().map(String::as_str).collect();
        // Of the shell's own making.
        names.retain(|name| !["OLDPWD", "PWD", "SHLVL", "_"].contains(name));
        assert_eq!(names, ["HOME", "HOSTNAME", "LANG", "PATH"]);
    }
}

#[tokio::test]
async fn guests_find_neither_answers_nor_other_tests_nor_other_submissions() {
    let fleet = started_with("worker.slots = 3\n").await;
    let needle = format!("needle{}", uuid::Uuid::new_v4().simple());
    let neighbour = ExecutionRequest {
        timeout_ms: Some(3000),
        ..request("bash", &format!("sleep 60 # {needle}"), &[(&needle, &needle)])
    };
    let neighbour = fleet.client.submit(neighbour).await.unwrap();
    eventually("the neighbour runs", || !fleet.containers_of(neighbour.as_str()).is_empty());

    let more_specific = format!("{needle}-of-another-test");
    let tests = [(needle.as_str(), needle.as_str()), (more_specific.as_str(), needle.as_str())];
    let code = include_str!("programs/sandbox/search.py");
    let limits = ExecutionRequest { timeout_ms: Some(30_000), ..request("python", code, &tests) };
    for test in fleet.judge(limits).await.test_results {
        assert_eq!((test.exit_code, test.actual_output.as_str()), (Some(0), "searched\n"), "{test:?}");
    }
    let neighbour = fleet.client.wait(&neighbour, Some(PATIENCE)).await.unwrap().unwrap();
    assert_eq!(neighbour.status, ExecutionStatus::Timeout, "{neighbour:?}");
}

#[tokio::test]
async fn files_and_cores_are_bounded() {
    for limits in facts("limits").await.each() {
        // Not 0, which does not stop a dump that is piped to a program of the host's.
        assert_eq!(limits["core"], json!([1, 1]));
        let opened = limits["opened"].as_i64().unwrap();
        assert!((1000..=1024).contains(&opened), "{opened}");
    }
}

#[tokio::test]
async fn there_is_no_swap_beyond_the_memory_limit() {
    for swap in facts("swap").await.each() {
        assert_eq!(swap["bytes"], 0);
    }
}

#[tokio::test]
async fn a_program_has_64_processes_and_a_fork_bomb_harms_nobody() {
    let fleet = Fleet::started().await;
    let count = "import os, time\n\
                 count = 1\n\
                 while True:\n    \
                     try:\n        child = os.fork()\n    except BlockingIOError:\n        break\n    \
                     if child == 0:\n        time.sleep(60)\n    \
                     count += 1\n\
                 print(count)";
    let test = judge_one(&fleet, request("python", count, &[("", "64")])).await;
    assert_eq!(test.status, TestStatus::Passed, "{test:?}");

    let bomb = "bomb() { bomb | bomb & }; bomb; while :; do bomb; done";
    let limits = ExecutionRequest { timeout_ms: Some(1000), ..request("bash", bomb, &[("", "")]) };
    let test = judge_one(&fleet, limits).await;
    assert_ne!(test.status, TestStatus::Passed, "{test:?}");
    still_judges(&fleet).await;
}

#[tokio::test]
async fn files_in_scratch_count_as_memory() {
    let fleet = Fleet::started().await;
    let code = "head -c 30M /dev/zero > /tmp/big && head -c 40M /dev/zero > /dev/shm/big && echo both fit";
    let within = ExecutionRequest { memory_limit_mb: Some(128), ..request("bash", code, &[("", "both fit")]) };
    assert_eq!(judge_one(&fleet, within).await.status, TestStatus::Passed);
    let beyond = ExecutionRequest { memory_limit_mb: Some(64), ..request("bash", code, &[("", "both fit")]) };
    assert_eq!(judge_one(&fleet, beyond).await.status, TestStatus::MemoryExceeded);
}

#[tokio::test]
async fn the_smallest_memory_is_enough_for_a_small_program() {
    let fleet = Fleet::started().await;
    let code = "#include <stdio.h>\nint main(void) { puts(\"small\"); }";
    let limits = ExecutionRequest { memory_limit_mb: Some(16), ..request("c", code, &[("", "small")]) };
    let test = judge_one(&fleet, limits).await;
    assert_eq!(test.status, TestStatus::Passed, "{test:?}");
    assert!(test.memory_used_kb < 16 * 1024, "{test:?}");
}

#[tokio::test]
async fn any_share_of_processors_can_be_asked_for_and_is_not_exceeded() {
    let fleet = Fleet::started().await;
    let mut ids = Vec::new();
    for cpu_limit in [8.0, 0.05, 0.001] {
        let limits = request("bash", "echo fine", &[("", "fine")]);
        let limits = ExecutionRequest { cpu_limit: Some(cpu_limit), timeout_ms: Some(60_000), ..limits };
        ids.push(fleet.client.submit(limits).await.unwrap());
    }
    for id in ids {
        let result = fleet.client.wait(&id, Some(PATIENCE)).await.unwrap().unwrap();
        assert_eq!(result.status, ExecutionStatus::AllPassed, "{result:?}");
    }
    let spin = request("bash", "while :; do :; done", &[("", "")]);
    let spin = ExecutionRequest { cpu_limit: Some(0.1), timeout_ms: Some(2000), ..spin };
    let test = judge_one(&fleet, spin).await;
    assert_eq!(test.status, TestStatus::Timeout, "{test:?}");
    assert!(test.cpu_time_ms.unwrap() < 1000, "a tenth of 2.5 s, and the making of the container: {test:?}");
}

#[tokio::test]
async fn a_test_may_have_a_timeout_of_its_own() {
    let fleet = Fleet::started().await;
    let sleep = "read -r seconds; sleep $seconds; echo awake";
    let own = |input, timeout_ms| TestCase { timeout_ms: Some(timeout_ms), ..test(input, "awake") };
    let shorter = ExecutionRequest {
        test_cases: vec![test("1.5", "awake"), own("60", 300)],
        timeout_ms: Some(60_000),
        ..request("bash", sleep, &[])
    };
    let longer = ExecutionRequest {
        test_cases: vec![test("60", "awake"), own("1.5", 60_000)],
        timeout_ms: Some(300),
        ..request("bash", sleep, &[])
    };
    let statuses = |result: ExecutionResult| result.test_results.iter().map(|test| test.status).collect::<Vec<_>>();
    assert_eq!(statuses(fleet.judge(shorter).await), [TestStatus::Passed, TestStatus::Timeout]);
    assert_eq!(statuses(fleet.judge(longer).await), [TestStatus::Timeout, TestStatus::Passed]);
}

#[tokio::test]
async fn tests_past_the_total_timeout_are_not_run() {
    let fleet = started_with("worker.slots = 1\n").await;
    let request = request("bash", "read -r seconds; sleep $seconds", &[("0", ""), ("60", ""), ("0", ""), ("0", "")]);
    let result =
        fleet.judge(ExecutionRequest { timeout_ms: Some(1000), total_timeout_ms: Some(1000), ..request }).await;
    assert_eq!(result.status, ExecutionStatus::SomePassed, "{result:?}");
    let told: Vec<_> = result.test_results.iter().map(|test| (test.status, test.error_message.as_deref())).collect();
    let total = (TestStatus::Timeout, Some("Total timeout exceeded"));
    assert_eq!(
        told,
        [(TestStatus::Passed, None), (TestStatus::Timeout, Some("Test execution timed out")), total, total,]
    );
}

#[tokio::test]
async fn tests_run_side_by_side_and_stay_in_order() {
    let fleet = started_with("worker.slots = 4\n").await;
    let seconds = ["3", "1.5", "0", "0.1"];
    let tests = seconds.map(|seconds| (seconds, seconds));
    let code = "read -r seconds; sleep $seconds; echo $seconds";
    let id = fleet.client.submit(request("bash", code, &tests)).await.unwrap();
    let mut ended = Vec::new();
    let seen = |event: &Event| {
        if let Event::Test { index, .. } = event {
            ended.push(*index);
        }
    };
    let result = fleet.client.follow(&id, Some(PATIENCE), seen).await.unwrap().unwrap();
    let outputs: Vec<_> = result.test_results.iter().map(|test| test.actual_output.trim()).collect();
    assert_eq!((result.status, outputs), (ExecutionStatus::AllPassed, seconds.to_vec()));
    assert_eq!(ended.last(), Some(&0), "the first slept longest: {ended:?}");
}

async fn refusal(fleet: &Fleet, language: &str, code: &str) -> String {
    let result = fleet.judge(request(language, code, &[("", "")])).await;
    assert_eq!(result.status, ExecutionStatus::CompilationError, "{result:?}");
    result.compilation_output.unwrap()
}

#[tokio::test]
async fn a_compiler_cannot_fill_the_disk() {
    let fleet = started_with(&probe()).await;
    for (language, code, said) in [
        // What a compiler writes: its output and, on the way there, temporary files.
        ("c", "char huge[600 << 20] = {1}; int main(void) {}", "File size limit exceeded"),
        ("c", "char large[200 << 20] = {1}; int main(void) {}", "No space left on device"),
        // What a hostile one would.
        ("probe", "for n in range(10**6): open(f'{n}', 'wb').write(bytes(16 << 20))", "wrote more than 256 MB"),
        ("probe", "for n in range(10**6): open(f'{n}', 'wb')", "or too many files"),
        ("probe", "import os\nwhile True: os.mkdir('deep'); os.chdir('deep')", "or too many files"),
    ] {
        let output = refusal(&fleet, language, code).await;
        assert!(output.contains(said), "{code}: {output}");
    }
    still_judges(&fleet).await;
}

#[tokio::test]
async fn a_compiler_that_finds_no_end_is_stopped() {
    let limits = ("languages.cpp.compile.timeout_ms = 3000\n", "compile.timeout_ms = 1000\n");
    let fleet = started_with(&format!("{}{}{}", limits.0, probe(), limits.1)).await;
    for endless in ["import time; time.sleep(600)", "while True: pass"] {
        assert_eq!(refusal(&fleet, "probe", endless).await, "Compilation timed out");
    }
    let types = "template<int N, int M> struct T { static const int x = T<N-1, 2*M>::x + T<N-1, 2*M+1>::x; };\n\
                 template<int M> struct T<0, M> { static const int x = M; };\n\
                 int main() { return T<30, 0>::x; }";
    for endless in ["#include \"/dev/zero\"\nint main() {}", types] {
        // Whichever comes first on this machine.
        let output = refusal(&fleet, "cpp", endless).await;
        assert!(output.contains("timed out") || output.contains("out of memory"), "{endless}: {output}");
    }
    still_judges(&fleet).await;
}

#[tokio::test]
async fn a_compilers_flood_of_errors_is_cut() {
    let fleet = Fleet::started().await;
    let output = refusal(&fleet, "c", &"#error nothing but errors\n".repeat(5000)).await;
    assert!(output.contains("nothing but errors") && output.ends_with("(cut)"));
    assert!((64 * 1024..65 * 1024).contains(&output.len()), "{}", output.len());
    still_judges(&fleet).await;
}

/// Everything on this machine that belongs to a worker's runs: containers and workspaces.
fn traces(fleet: &Fleet, request: &RequestId) -> Vec<String> {
    let worker = &fleet.tenants()[0];
    let names = |folder: &Path| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect::<Vec<_>>()
    };
    let workspaces = names(&fleet.settings.sandbox.workspace_root.join(worker).join("workspaces"));
    fleet.containers_of(request.as_str()).into_iter().chain(workspaces).collect()
}

#[tokio::test]
async fn a_running_container_says_whose_it_is() {
    let fleet = Fleet::started().await;
    let sleeper = ExecutionRequest { timeout_ms: Some(2000), ..request("bash", "sleep 60", &[("", "")]) };
    let id = fleet.client.submit(sleeper).await.unwrap();
    eventually("the container runs", || !fleet.containers_of(id.as_str()).is_empty());
    let containers = fleet.containers_of(id.as_str());
    let format = "{{index .Config.Labels \"tribunal.worker\"}} {{index .Config.Labels \"tribunal.request\"}}";
    let labels = fleet.docker(&["inspect", "--format", format, &containers[0]]);
    assert_eq!(labels.trim(), format!("{} {id}", fleet.tenants()[0]));
    assert_eq!(traces(&fleet, &id).len(), 2, "a container and a workspace");
    // Asked for, and not only so because this daemon has no network to give.
    let network = fleet.docker(&["inspect", "--format", "{{.Config.NetworkDisabled}}", &containers[0]]);
    assert_eq!(network.trim(), "true");
    let result = fleet.client.wait(&id, Some(PATIENCE)).await.unwrap().unwrap();
    assert_eq!(result.status, ExecutionStatus::Timeout);
    eventually("nothing is left", || traces(&fleet, &id).is_empty());
}

#[tokio::test]
async fn nothing_is_left_of_a_run_however_it_ends() {
    let fleet = Fleet::started().await;
    for (language, code, status) in [
        ("bash", "true", ExecutionStatus::AllPassed),
        ("bash", "sleep 60", ExecutionStatus::Timeout),
        ("bash", "yes", ExecutionStatus::OutputExceeded),
        ("bash", "a=xxxxxxxx; while :; do a=$a$a; done", ExecutionStatus::MemoryExceeded),
        ("bash", "kill -9 -1; kill -9 $$", ExecutionStatus::RuntimeError),
        ("bash", "setsid sleep 60 & disown; exit 0", ExecutionStatus::AllPassed),
        ("c", "int main(void) { return 0; }", ExecutionStatus::AllPassed),
        ("c", "no program", ExecutionStatus::CompilationError),
    ] {
        let timeout_ms = if status == ExecutionStatus::Timeout { 500 } else { 60_000 };
        let limits = ExecutionRequest { timeout_ms: Some(timeout_ms), ..request(language, code, &[("", "")]) };
        let result = fleet.judge(limits).await;
        assert_eq!(result.status, status, "{code}: {result:?}");
        let id: RequestId = result.request_id.parse().unwrap();
        eventually(&format!("nothing is left of {code:?}"), || traces(&fleet, &id).is_empty());
    }
}
