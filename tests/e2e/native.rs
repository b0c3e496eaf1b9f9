//! The native sandbox in a fleet: its zygotes may die, and so may the worker; nothing is lost by that, and nothing left.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tribunal_shared::request::ExecutionRequest;
use tribunal_shared::result::ExecutionStatus;
use tribunal_tests::requests::request;
use tribunal_tests::{Fleet, Ground, PATIENCE, eventually};

/// The children of a process that are zygotes.
fn zygotes(worker: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{worker}/task")).into_iter().flatten().flatten();
    let children = tasks.flat_map(|task| {
        let text = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>()
    });
    children.filter(|child| is_zygote(*child)).collect()
}

fn is_zygote(pid: u32) -> bool {
    fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.starts_with(b"tribunal-zygote\0"))
}

fn sleeping() -> ExecutionRequest {
    let code = "cat /proc/sys/kernel/hostname 2>&1; sleep 2; echo awake";
    ExecutionRequest { timeout_ms: Some(30_000), ..request("bash", code, &[("", "x")]) }
}

/// Whether a program of a guest runs below this zygote.
fn runs_sleep(zygote: u32) -> bool {
    let below = |pid: u32| {
        let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>()
    };
    let comm = |pid: u32| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    below(zygote).into_iter().flat_map(below).flat_map(below).any(|pid| comm(pid).trim() == "sleep")
}

fn kill(pid: u32) {
    assert!(Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap().success());
}

#[tokio::test]
async fn a_zygote_that_dies_is_replaced_and_its_run_is_no_verdict() {
    let mut fleet = Fleet::started_on(Ground::Host).await;
    let worker = fleet.worker(0).pid();
    let id = fleet.client.submit(sleeping()).await.unwrap();
    eventually("the program sleeps", || zygotes(worker).into_iter().any(runs_sleep));
    let victim = zygotes(worker).into_iter().find(|zygote| runs_sleep(*zygote)).unwrap();
    kill(victim);
    let result = fleet.client.wait(&id, Some(PATIENCE)).await.unwrap().expect("a result");
    assert_eq!(result.test_results.len(), 1, "judged, though not at the first attempt: {result:?}");
    assert!(result.test_results[0].actual_output.ends_with("awake\n"), "{result:?}");
    assert!(fleet.logs().contains("our failure; to be tried again"), "{}", fleet.logs());
    // Also one that waits.
    zygotes(worker).into_iter().for_each(kill);
    let result = fleet.judge(request("bash", "cat", &[("fine", "fine")])).await;
    assert_eq!(result.status, ExecutionStatus::AllPassed, "{result:?}");
}

#[tokio::test]
async fn a_signal_to_all_its_processes_stops_a_worker_and_no_run() {
    let mut fleet = Fleet::started_on(Ground::Host).await;
    let worker = fleet.worker(0).pid();
    let id = fleet.client.submit(sleeping()).await.unwrap();
    eventually("the program sleeps", || zygotes(worker).into_iter().any(runs_sleep));
    for process in zygotes(worker).into_iter().chain([worker]) {
        assert!(Command::new("kill").args(["-TERM", &process.to_string()]).status().unwrap().success());
    }
    assert_eq!(fleet.worker(0).wait().code(), Some(0));
    let result = fleet.client.wait(&id, Some(PATIENCE)).await.unwrap().expect("a result");
    assert!(result.test_results[0].actual_output.ends_with("awake\n"), "{result:?}");
    assert!(!fleet.logs().contains("our failure"), "{}", fleet.logs());
}

/// The folders of a worker among the cgroups.
fn cgroups_of(name: &str) -> Vec<PathBuf> {
    fn search(folder: &Path, name: &str, depth: usize, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten().filter(|entry| entry.path().is_dir()) {
            if entry.file_name() == name {
                found.push(entry.path());
            } else if depth < 6 {
                search(&entry.path(), name, depth + 1, found);
            }
        }
    }
    let mut found = Vec::new();
    search(Path::new("/sys/fs/cgroup"), name, 0, &mut found);
    found
}

#[tokio::test]
async fn what_a_killed_worker_left_is_cleared_and_what_the_living_have_is_not() {
    let mut fleet = Fleet::on(Ground::Host, "").await;
    let worker = fleet.start_worker().pid();
    let dead = fleet.tenants();
    let id = fleet.client.submit(sleeping()).await.unwrap();
    eventually("the program sleeps", || zygotes(worker).into_iter().any(runs_sleep));
    let its_zygotes = zygotes(worker);
    assert!(!cgroups_of(&dead[0]).is_empty());
    fleet.worker(0).kill();
    eventually("its zygotes end with it", || !its_zygotes.iter().any(|pid| is_zygote(*pid)));

    fleet.start_worker();
    let result = fleet.client.wait(&id, Some(PATIENCE)).await.unwrap().expect("a result");
    assert_eq!(result.test_results.len(), 1, "{result:?}");
    eventually("its cgroups are gone", || cgroups_of(&dead[0]).is_empty());
    eventually("its folder is gone", || !fleet.tenants().contains(&dead[0]));
    let living = fleet.tenants();
    assert_eq!(living.len(), 1);
    assert!(!cgroups_of(&living[0]).is_empty(), "the living one keeps its own");
    // And leaves nothing when it is told to go.
    fleet.worker(1).signal("TERM");
    assert_eq!(fleet.worker(1).wait().code(), Some(0));
    assert!(cgroups_of(&living[0]).is_empty() && fleet.tenants().is_empty());
}

#[test]
fn a_worker_that_cannot_keep_its_promises_does_not_start() {
    // Where a user who may do nothing can start it.
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let worker = folder.path().join("worker");
    fs::copy(tribunal_tests::binary("tribunal-worker"), &worker).unwrap();
    let denied = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"])
        .arg(&worker)
        .current_dir("/")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&denied.stderr);
    assert_eq!(denied.status.code(), Some(3), "{said}");
    assert!(said.contains("needs root") && said.contains("sandbox.kind"), "{said}");
}
