//! What programs leave on the host.
//!
//! Others may use the machine at the same time, with containers and guests of their own. So a look is compared with an
//! earlier one, and what is new must go away: what others started does so by itself, what was left behind does not.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use bollard::Docker;
use bollard::query_parameters::ListContainersOptionsBuilder;

use crate::world::World;

/// Guests' users, as the host sees them.
const FIRST_GUEST: u32 = 2_000_000_000;
const GONE_WITHIN: Duration = Duration::from_secs(15);
/// What this process, which is the worker, may take: outputs are bounded, and so are their copies.
const MOST_MEMORY_MB: u64 = 160;

pub struct Watch {
    workspaces: std::path::PathBuf,
    docker: Option<Docker>,
    cgroup: String,
    before: BTreeSet<String>,
}

impl Watch {
    /// The worker must be idle, and have worked before: what it keeps for the next run is no trace.
    pub async fn new(world: &World) -> Self {
        let docker = std::env::var("TEST_DOCKER_HOST").ok();
        let mut watch = Self {
            workspaces: world.settings.sandbox.workspace_root.clone(),
            docker: docker.and_then(|host| Docker::connect_with_host(&host).ok()),
            cgroup: world.settings.sandbox.native.cgroup.clone(),
            before: BTreeSet::new(),
        };
        watch.before = watch.look().await;
        watch
    }

    async fn look(&self) -> BTreeSet<String> {
        let mut seen = BTreeSet::new();
        seen.extend(guests());
        seen.extend(mounts());
        folders_below("cgroup", Path::new("/sys/fs/cgroup"), &mut seen);
        // Others' cgroups are others' business; those of containers go with the containers.
        seen.retain(|trace| !trace.starts_with("cgroup ") || trace.contains(&self.cgroup));
        entries_below("file", &self.workspaces, &mut seen);
        for scratch in ["/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue"] {
            seen.extend(guests_files(Path::new(scratch)));
        }
        for kind in ["shm", "msg", "sem"] {
            let table = fs::read_to_string(format!("/proc/sysvipc/{kind}")).unwrap_or_default();
            seen.extend(table.lines().skip(1).filter_map(|line| {
                let mut fields = line.split_whitespace();
                Some(format!("{kind} {} {}", fields.next()?, fields.next()?))
            }));
        }
        seen.extend(self.containers().await);
        seen
    }

    /// Those of this worker: its folder has its name.
    async fn containers(&self) -> Vec<String> {
        let Some(docker) = &self.docker else { return Vec::new() };
        let tenants = fs::read_dir(&self.workspaces).into_iter().flatten().flatten();
        let mut found = Vec::new();
        for tenant in tenants.filter_map(|entry| entry.file_name().into_string().ok()) {
            let label = format!("tribunal.worker={tenant}");
            let filters = HashMap::from([("label", vec![label.as_str()])]);
            let options = ListContainersOptionsBuilder::new().all(true).filters(&filters).build();
            let containers = docker.list_containers(Some(options)).await.unwrap_or_default();
            found.extend(containers.into_iter().filter_map(|container| Some(format!("container {}", container.id?))));
        }
        found
    }

    /// What is new and stays.
    pub async fn complaints(&mut self) -> Vec<String> {
        let deadline = Instant::now() + GONE_WITHIN;
        let mut left: BTreeSet<_> = self.look().await.difference(&self.before).cloned().collect();
        while !left.is_empty() && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(10)).await;
            let now = self.look().await;
            left.retain(|trace| now.contains(trace));
        }
        // Said once is enough.
        self.before.extend(left.iter().cloned());
        let mut complaints: Vec<_> = left.into_iter().map(|trace| format!("left behind: {trace}")).collect();
        let memory = memory_mb();
        if memory > MOST_MEMORY_MB {
            complaints.push(format!("the worker uses {memory} MB, at most {MOST_MEMORY_MB} were expected"));
        }
        complaints
    }
}

fn memory_mb() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kilobytes = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.parse().ok());
    kilobytes.unwrap_or(u64::MAX) / 1024
}

/// Processes of guests' users.
pub fn guests() -> Vec<String> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let guest = |entry: fs::DirEntry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        // A process may end while it is looked at.
        let status = fs::read_to_string(entry.path().join("status")).ok()?;
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let user: u32 = field("Uid:")?.split_whitespace().next()?.parse().ok()?;
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        let started = stat.rsplit(") ").next()?.split(' ').nth(19)?.to_owned();
        (user >= FIRST_GUEST).then(|| format!("process {pid} ({}, begun at {started})", field("Name:").unwrap_or("?")))
    };
    processes.filter_map(guest).collect()
}

fn mounts() -> Vec<String> {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    table.lines().filter_map(|line| Some(format!("mount {}", line.split(' ').nth(4)?))).collect()
}

fn folders_below(what: &str, top: &Path, seen: &mut BTreeSet<String>) {
    for entry in fs::read_dir(top).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            seen.insert(format!("{what} {}", entry.path().display()));
            folders_below(what, &entry.path(), seen);
        }
    }
}

fn entries_below(what: &str, top: &Path, seen: &mut BTreeSet<String>) {
    for entry in fs::read_dir(top).into_iter().flatten().flatten() {
        seen.insert(format!("{what} {}", entry.path().display()));
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            entries_below(what, &entry.path(), seen);
        }
    }
}

fn guests_files(folder: &Path) -> Vec<String> {
    use std::os::unix::fs::MetadataExt;
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let of_guests = entries.filter(|entry| entry.metadata().is_ok_and(|metadata| metadata.uid() >= FIRST_GUEST));
    of_guests.map(|entry| format!("file {}", entry.path().display())).collect()
}
