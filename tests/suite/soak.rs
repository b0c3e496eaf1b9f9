//! Many runs in a row: nothing of this process, of its zygotes or of the machine may grow.

use std::fs;
use std::time::Instant;

use crate::ground::{Ground, Run};
use crate::report::Report;
use crate::world::{Kind, World, own_cgroup};

/// By then every cache is warm.
const WARM: usize = 1_000;
/// Of all zygotes together: what the C library keeps for later goes up and down.
const MOST_GROWTH_KB: i64 = 2_048;

pub async fn run(runs: usize) -> Report {
    let mut report = Report::new();
    let ground = Ground::new(World::start(&Kind::Native { root: "host".into() }).await);
    let workspace = ground.workspace().await;
    // Each in its own way: ended by itself, with output, by a signal, by an error, by its limits.
    let mut small = Run::bash("echo $PPID; cat; exec 1>&-");
    small.stdin = b"input".to_vec();
    let mut flood = Run::command(&["yes"]);
    flood.limits.output_bytes = 4096;
    let kinds = [
        Run::command(&["true"]),
        small,
        Run::command(&["false"]),
        Run::bash("kill -9 $$"),
        Run::command(&["no-such-program"]),
        flood,
        Run::bash("sleep 60 & setsid sleep 60 & echo left"),
        Run::bash("touch /tmp/a /dev/shm/b"),
    ];
    let began = Instant::now();
    let mut before = None;
    for number in 0..runs {
        // Mostly the simplest: that is what there are twenty thousand of.
        let kind = if number % 10 == 0 { &kinds[number / 10 % kinds.len()] } else { &kinds[0] };
        if let Err(error) = ground.try_in(&workspace, kind.clone()).await {
            report.line("every run is run", "failed", began.elapsed(), &[error.to_string()]);
            return report;
        }
        if number + 1 == WARM {
            before = Some(Size::now());
        }
    }
    let took = began.elapsed();
    let (Some(before), after) = (before, Size::now()) else {
        report.line("enough runs", "failed", took, &[format!("at least {WARM} are needed")]);
        return report;
    };
    println!("after {WARM}: {before:?}\nafter {runs}: {after:?}");
    for (what, before, after, more) in [
        ("descriptors", before.descriptors, after.descriptors, 8),
        ("cgroups", before.cgroups, after.cgroups, 4),
        ("mounts", before.mounts, after.mounts, 0),
        ("processes", before.processes, after.processes, 3),
        ("memory of the worker in kB", before.memory_kb, after.memory_kb, MOST_GROWTH_KB),
        ("memory of the zygotes in kB", before.zygotes_kb, after.zygotes_kb, MOST_GROWTH_KB),
    ] {
        let complaint = (after > before + more).then(|| format!("{before} after {WARM} runs, {after} after {runs}"));
        report.line(what, &format!("{before} → {after}"), took, complaint.as_slice());
    }
    report
}

#[derive(Debug)]
struct Size {
    descriptors: i64,
    cgroups: i64,
    mounts: i64,
    /// Zygotes and what they have ready.
    processes: i64,
    memory_kb: i64,
    zygotes_kb: i64,
}

impl Size {
    fn now() -> Self {
        let zygotes = descendants(std::process::id());
        let lines = |path: &str| fs::read_to_string(path).unwrap_or_default().lines().count() as i64;
        Self {
            descriptors: fs::read_dir("/proc/self/fd").map_or(0, Iterator::count) as i64,
            cgroups: cgroups(std::path::Path::new("/sys/fs/cgroup"), &own_cgroup(), 0),
            mounts: lines("/proc/self/mountinfo"),
            processes: zygotes.len() as i64,
            memory_kb: resident_kb(std::process::id()),
            zygotes_kb: zygotes.into_iter().map(resident_kb).sum(),
        }
    }
}

fn descendants(parent: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten();
    let children = tasks.flat_map(|task| {
        let text = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>()
    });
    children.flat_map(|child| std::iter::once(child).chain(descendants(child))).collect()
}

/// Memory of its own: what it shares with others by a copy of itself is counted once.
fn resident_kb(pid: u32) -> i64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let field = text.lines().find_map(|line| line.strip_prefix("Pss_Anon:"));
    field.and_then(|field| field.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}

fn cgroups(below: &std::path::Path, name: &str, depth: usize) -> i64 {
    let folders = fs::read_dir(below).into_iter().flatten().flatten().filter(|entry| entry.path().is_dir());
    folders
        .map(|folder| {
            let own = i64::from(folder.path().to_string_lossy().contains(name));
            if depth < 6 { own + cgroups(&folder.path(), name, depth + 1) } else { own }
        })
        .sum()
}
