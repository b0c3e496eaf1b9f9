//! Cgroups, of version 1 or 2, whichever the host has: limits before a run, counters after it.
//!
//! Making and removing one costs as much as running a small program, so they are used again, as long as nothing is left in
//! them. Nobody but the program and its children ever is in one.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::Defence;
use super::message::Entrance;
use crate::sandbox::{RunLimits, SandboxError, host_swaps};

const PERIOD_US: u64 = 100_000;
/// The kernel takes no less.
const SMALLEST_QUOTA_US: u64 = 1_000;
const MIB: u64 = 1 << 20;
/// What may be left in a cgroup that is used again. What its files hold in the page cache, and what the kernel keeps for
/// later, is counted for the one who asked for it first, and stays when that one is gone.
const LEFT_AT_MOST: u64 = MIB;
const NEEDED: [&str; 4] = ["memory", "pids", "cpu", "cpuacct"];

/// Where the host has its cgroups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hierarchy {
    /// For each controller of [`NEEDED`], the folder of the worker's own cgroup.
    V1(Vec<PathBuf>),
    V2(PathBuf),
}

impl Hierarchy {
    pub fn find() -> Result<Self, SandboxError> {
        let read = |path: &str| {
            fs::read_to_string(path).map_err(|error| SandboxError::failed(format!("reading {path}"), error))
        };
        let (mounts, own) = (read("/proc/self/mountinfo")?, read("/proc/self/cgroup")?);
        let mounts: Vec<_> = mounts.lines().filter_map(Mount::parse).collect();
        Self::among(&mounts, &own).ok_or_else(|| SandboxError::Unfit {
            problem: "there are no cgroups here with the controllers memory, pids and cpu".into(),
            remedy: "Mount them (cgroup2 at /sys/fs/cgroup), and in a container give it access to them, or set \
                     sandbox.kind = \"docker\""
                .into(),
        })
    }

    fn among(mounts: &[Mount<'_>], own: &str) -> Option<Self> {
        let v1 = NEEDED.map(|controller| {
            let mount = mounts.iter().find(|mount| mount.kind == "cgroup" && mount.has_option(controller))?;
            let own = own.lines().find_map(|line| {
                let (_, rest) = line.split_once(':')?;
                let (controllers, path) = rest.split_once(':')?;
                controllers.split(',').any(|name| name == controller).then_some(path)
            })?;
            // Of a container's cgroups only the lower part may be mounted.
            let below = own.strip_prefix(mount.root.trim_end_matches('/')).unwrap_or(own);
            Some(Path::new(mount.at).join(below.trim_start_matches('/')))
        });
        if v1.iter().all(Option::is_some) {
            return Some(Self::V1(v1.into_iter().flatten().collect()));
        }
        let at = Path::new(mounts.iter().find(|mount| mount.kind == "cgroup2")?.at);
        let controllers = fs::read_to_string(at.join("cgroup.controllers")).ok()?;
        let has = |controller: &str| controllers.split_whitespace().any(|name| name == controller);
        (has("memory") && has("pids") && has("cpu")).then(|| Self::V2(at.to_owned()))
    }

    fn tops(&self) -> &[PathBuf] {
        match self {
            Self::V1(tops) => tops,
            Self::V2(top) => std::slice::from_ref(top),
        }
    }
}

/// A line of `/proc/self/mountinfo`.
struct Mount<'a> {
    root: &'a str,
    at: &'a str,
    kind: &'a str,
    options: &'a str,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (place, file_system) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(3);
        let mut file_system = file_system.split(' ');
        Some(Self { root: place.next()?, at: place.next()?, kind: file_system.next()?, options: file_system.nth(1)? })
    }

    fn has_option(&self, name: &str) -> bool {
        self.options.split(',').any(|option| option == name)
    }
}

/// The cgroups of one worker: a folder with its name, and one below that for each run.
pub struct Cgroups {
    hierarchy: Hierarchy,
    /// The worker's folder in each hierarchy, without repetition.
    homes: Vec<PathBuf>,
    without: Vec<Defence>,
    made: AtomicU64,
}

impl Cgroups {
    pub fn start(setting: &str, worker: &str, without: &[Defence]) -> Result<Self, SandboxError> {
        let hierarchy = Hierarchy::find()?;
        let unfit = |path: &Path, error: io::Error| SandboxError::Unfit {
            problem: format!("cannot use the cgroup {}: {error}", path.display()),
            remedy:
                "Run the worker as root, in a container with its cgroups writable, and set sandbox.native.cgroup to \
                     one that it may manage"
                    .into(),
        };
        let mut homes: Vec<PathBuf> = Vec::new();
        for top in hierarchy.tops() {
            let home = top.join(setting).join(worker);
            if homes.contains(&home) {
                continue;
            }
            if let Hierarchy::V2(_) = hierarchy {
                enable_below(top, &home).map_err(|(path, error)| unfit(&path, error))?;
            } else {
                create(&home).map_err(|error| unfit(&home, error))?;
            }
            homes.push(home);
        }
        Ok(Self { hierarchy, homes, without: without.to_vec(), made: AtomicU64::new(0) })
    }

    pub fn make(&self) -> Result<Cgroup, SandboxError> {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let folders: Vec<_> = self.homes.iter().map(|home| home.join(number.to_string())).collect();
        Cgroup::make(folders, &self.hierarchy, &self.without)
            .map_err(|(path, error)| SandboxError::failed(format!("making the cgroup {}", path.display()), error))
    }

    /// Removes what a dead worker left, after whatever still runs there.
    pub fn remove_of_dead(&self, worker: &str) -> io::Result<()> {
        for home in &self.homes {
            let Some(parent) = home.parent() else { continue };
            remove_home(&parent.join(worker))?;
        }
        Ok(())
    }
}

impl Drop for Cgroups {
    fn drop(&mut self) {
        for home in &self.homes {
            if let Err(error) = remove_home(home) {
                tracing::warn!(cgroup = %home.display(), %error, "a cgroup could not be removed");
            }
            // The last one turns off the light: with a neighbour in it, it stays.
            let _ = home.parent().map(fs::remove_dir);
        }
    }
}

/// A neighbour that ends may take away the folder above in the very moment.
fn create(home: &Path) -> io::Result<()> {
    let mut attempts = 0..3;
    loop {
        match fs::create_dir_all(home) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && attempts.next().is_some() => {}
            other => return other,
        }
    }
}

/// On version 2 a controller reaches a cgroup only if all above it hand it down.
fn enable_below(top: &Path, home: &Path) -> Result<(), (PathBuf, io::Error)> {
    let below = home.strip_prefix(top).unwrap_or(home);
    let mut path = top.to_owned();
    for part in below.components().map(Some).chain([None]) {
        let control = path.join("cgroup.subtree_control");
        fs::write(&control, "+memory +pids +cpu").map_err(|error| (control, error))?;
        if let Some(part) = part {
            path.push(part);
            if let Err(error) = fs::create_dir(&path)
                && error.kind() != io::ErrorKind::AlreadyExists
            {
                return Err((path, error));
            }
        }
    }
    Ok(())
}

fn remove_home(home: &Path) -> io::Result<()> {
    let runs = match fs::read_dir(home) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    for run in runs.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        remove(&run.path())?;
    }
    remove(home)
}

/// A process that was killed is in its cgroup until somebody has buried it, which takes a moment.
fn remove(folder: &Path) -> io::Result<()> {
    for attempt in 0.. {
        match fs::remove_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => break,
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy && attempt < 100 => {
                kill_in(folder);
                std::thread::sleep(Duration::from_millis(1 + attempt / 10));
            }
            other => return other,
        }
    }
    Ok(())
}

fn kill_in(folder: &Path) {
    let inside = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
    for pid in inside.lines().filter_map(|line| rustix::process::Pid::from_raw(line.parse().ok()?)) {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}

/// The cgroup of one run at a time. Removed when dropped.
pub struct Cgroup {
    folders: Vec<PathBuf>,
    /// The way in: a folder on version 2, `tasks` files on version 1.
    entrances: Vec<File>,
    files: Files,
    without: Vec<Defence>,
    set: Option<Limits>,
    /// Memory that was counted here when nobody was in it.
    left: u64,
    before: Counts,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Limits {
    memory: Option<u64>,
    processes: Option<u64>,
    quota_us: Option<u64>,
}

/// Opened once: the path to a file of a cgroup is long.
enum Files {
    V1 {
        memory: File,
        swap: Option<File>,
        processes: File,
        quota: File,
        usage: File,
        peak: File,
        cpu: File,
        oom: File,
        stat: File,
    },
    V2 {
        memory: File,
        processes: File,
        quota: File,
        usage: File,
        peak: Option<PeakFile>,
        cpu: File,
        oom: File,
        stat: File,
    },
}

/// The peak of a cgroup of version 2, and whether it can be begun anew (from Linux 6.12 on, by the descriptor).
struct PeakFile {
    file: File,
    can_begin_anew: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counts {
    cpu_ns: u64,
    oom_kills: u64,
}

/// What a run used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Used {
    pub cpu: Duration,
    /// `None` if this kernel does not count it.
    pub peak: Option<Peak>,
    pub oom: bool,
}

/// Memory at its peak, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peak {
    pub whole: u64,
    /// Of it, what was there before the run or belongs to files that it read.
    pub not_own: u64,
}

impl Cgroup {
    fn make(folders: Vec<PathBuf>, hierarchy: &Hierarchy, without: &[Defence]) -> Result<Self, (PathBuf, io::Error)> {
        for folder in &folders {
            fs::create_dir(folder).map_err(|error| (folder.clone(), error))?;
        }
        let open = |path: PathBuf, write: bool| {
            OpenOptions::new().read(true).write(write).open(&path).map_err(|error| (path, error))
        };
        let (entrances, files) = match hierarchy {
            Hierarchy::V1(tops) => {
                // Controllers that are mounted together have their folder in common.
                let mut distinct: Vec<&PathBuf> = Vec::new();
                for top in tops {
                    if !distinct.contains(&top) {
                        distinct.push(top);
                    }
                }
                let of = |controller: usize, name: &str| {
                    let at = distinct.iter().position(|top| **top == tops[controller]).unwrap_or_default();
                    folders[at].join(name)
                };
                let (memory, pids, cpu, cpuacct) = (0, 1, 2, 3);
                let files = Files::V1 {
                    memory: open(of(memory, "memory.limit_in_bytes"), true)?,
                    // Absent if the kernel does not count swap; then there must be none.
                    swap: open(of(memory, "memory.memsw.limit_in_bytes"), true).ok(),
                    processes: open(of(pids, "pids.max"), true)?,
                    quota: open(of(cpu, "cpu.cfs_quota_us"), true)?,
                    usage: open(of(memory, "memory.usage_in_bytes"), false)?,
                    peak: open(of(memory, "memory.max_usage_in_bytes"), true)?,
                    cpu: open(of(cpuacct, "cpuacct.usage"), false)?,
                    oom: open(of(memory, "memory.oom_control"), false)?,
                    stat: open(of(memory, "memory.stat"), false)?,
                };
                let entrances = folders.iter().map(|folder| {
                    let path = folder.join("tasks");
                    OpenOptions::new().write(true).open(&path).map_err(|error| (path, error))
                });
                (entrances.collect::<Result<_, _>>()?, files)
            }
            Hierarchy::V2(_) => {
                let folder = &folders[0];
                let file = |name: &str, write| open(folder.join(name), write);
                match file("memory.swap.max", true) {
                    Ok(swap) => write(&swap, "0").map_err(|error| (folder.join("memory.swap.max"), error))?,
                    // The kernel does not count swap; then there must be none.
                    Err(missing) if host_swaps() => return Err(missing),
                    Err(_) => {}
                }
                let files = Files::V2 {
                    memory: file("memory.max", true)?,
                    processes: file("pids.max", true)?,
                    quota: file("cpu.max", true)?,
                    usage: file("memory.current", false)?,
                    peak: PeakFile::open(folder),
                    cpu: file("cpu.stat", false)?,
                    oom: file("memory.events", false)?,
                    stat: file("memory.stat", false)?,
                };
                (vec![File::open(folder).map_err(|error| (folder.clone(), error))?], files)
            }
        };
        Ok(Self { folders, entrances, files, without: without.to_vec(), set: None, left: 0, before: Counts::default() })
    }

    pub fn entrances(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.entrances.iter().map(AsFd::as_fd)
    }

    pub fn entrance(&self) -> Entrance {
        match self.files {
            Files::V1 { .. } => Entrance::Join,
            Files::V2 { .. } => Entrance::Birth,
        }
    }

    /// For the run that begins now, from which on is counted.
    pub fn begin(&mut self, limits: &RunLimits) -> Result<(), SandboxError> {
        self.limit(limits)?;
        match &self.files {
            Files::V1 { peak, .. } => drop(write(peak, "0")),
            Files::V2 { peak: Some(PeakFile { file, can_begin_anew: true }), .. } => drop(write(file, "reset")),
            Files::V2 { .. } => {}
        }
        self.before = self.counts();
        Ok(())
    }

    fn limit(&mut self, limits: &RunLimits) -> Result<(), SandboxError> {
        let unless = |defence: Defence, limit: u64| (!self.without.contains(&defence)).then_some(limit);
        let quota = ((limits.cpus * PERIOD_US as f64) as u64).max(SMALLEST_QUOTA_US);
        let wanted = Limits {
            memory: unless(Defence::MemoryLimit, limits.memory_mb * MIB),
            processes: unless(Defence::ProcessLimit, limits.processes),
            quota_us: unless(Defence::CpuLimit, quota),
        };
        if self.set == Some(wanted) {
            return Ok(());
        }
        self.write_limits(wanted).map_err(|error| SandboxError::failed("setting the limits of a cgroup", error))?;
        self.set = Some(wanted);
        Ok(())
    }

    /// For a guest that shall die and cannot for want of time.
    pub fn lift_quota(&mut self) {
        let lifted = match &self.files {
            Files::V1 { quota, .. } => write(quota, "-1"),
            Files::V2 { quota, .. } => write(quota, "max"),
        };
        self.set = None;
        if let Err(error) = lifted {
            tracing::warn!(%error, "the quota of a cgroup could not be lifted");
        }
    }

    fn write_limits(&self, Limits { memory: bytes, processes: count, quota_us }: Limits) -> io::Result<()> {
        let or = |limit: Option<u64>, none: &str| limit.map_or(none.to_owned(), |limit| limit.to_string());
        match &self.files {
            Files::V1 { memory, swap, processes, quota, .. } => {
                // Memory may never have a higher limit than memory and swap together, not even between two writes.
                if let Some(swap) = swap {
                    write(swap, "-1")?;
                }
                write(memory, &or(bytes, "-1"))?;
                if let Some(swap) = swap {
                    write(swap, &or(bytes, "-1"))?;
                }
                write(processes, &or(count, "max"))?;
                write(quota, &or(quota_us, "-1"))
            }
            Files::V2 { memory, processes, quota, .. } => {
                write(memory, &or(bytes, "max"))?;
                write(processes, &or(count, "max"))?;
                write(quota, &format!("{} {PERIOD_US}", or(quota_us, "max")))
            }
        }
    }

    fn counts(&self) -> Counts {
        match &self.files {
            Files::V1 { cpu, oom, .. } => {
                Counts { cpu_ns: number(cpu).unwrap_or(0), oom_kills: field(oom, "oom_kill").unwrap_or(0) }
            }
            Files::V2 { cpu, oom, .. } => Counts {
                cpu_ns: field(cpu, "usage_usec").unwrap_or(0) * 1000,
                oom_kills: field(oom, "oom_kill").unwrap_or(0),
            },
        }
    }

    /// Since it began.
    pub fn used(&self) -> Used {
        let (before, now) = (self.before, self.counts());
        let peak = match &self.files {
            Files::V1 { peak, .. } => number(peak),
            Files::V2 { peak, .. } => peak.as_ref().and_then(|peak| number(&peak.file)),
        };
        Used {
            cpu: Duration::from_nanos(now.cpu_ns.saturating_sub(before.cpu_ns)),
            peak: peak.map(|peak| Peak { whole: peak, not_own: self.left + self.cached(peak) }),
            oom: now.oom_kills > before.oom_kills,
        }
    }

    /// What the files that it read take in the page cache, as far as they are still there: the kernel counts that too, but
    /// takes it away again before it says no to anybody.
    fn cached(&self, peak: u64) -> u64 {
        // Not worth a look otherwise.
        if peak < 16 * MIB {
            return 0;
        }
        let (Files::V1 { stat, .. } | Files::V2 { stat, .. }) = &self.files;
        let text = read(stat).unwrap_or_default();
        ["active_file", "inactive_file"].iter().filter_map(|name| find(&text, name)).sum()
    }

    /// Whether it can serve another run. Nobody may be in it.
    pub fn clears(&mut self) -> bool {
        let counts_anew = match &self.files {
            Files::V1 { .. } => true,
            Files::V2 { peak, .. } => peak.as_ref().is_none_or(|peak| peak.can_begin_anew),
        };
        self.left = self.usage();
        counts_anew && self.left <= LEFT_AT_MOST
    }

    fn usage(&self) -> u64 {
        let (Files::V1 { usage, .. } | Files::V2 { usage, .. }) = &self.files;
        number(usage).unwrap_or(0)
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        for folder in &self.folders {
            if let Err(error) = remove(folder) {
                tracing::warn!(cgroup = %folder.display(), %error, "a cgroup could not be removed");
            }
        }
    }
}

impl PeakFile {
    fn open(folder: &Path) -> Option<Self> {
        let path = folder.join("memory.peak");
        match OpenOptions::new().read(true).write(true).open(&path) {
            Ok(file) => Some(Self { can_begin_anew: write(&file, "reset").is_ok(), file }),
            Err(_) => Some(Self { file: File::open(&path).ok()?, can_begin_anew: false }),
        }
    }
}

fn write(mut file: &File, text: &str) -> io::Result<()> {
    io::Write::write_all(&mut file, text.as_bytes())
}

fn read(file: &File) -> Option<String> {
    let mut buffer = [0; 8192];
    let length = file.read_at(&mut buffer, 0).ok()?;
    String::from_utf8(buffer[..length].to_vec()).ok()
}

fn number(file: &File) -> Option<u64> {
    read(file)?.trim().parse().ok()
}

fn field(file: &File, name: &str) -> Option<u64> {
    find(&read(file)?, name)
}

fn find(table: &str, name: &str) -> Option<u64> {
    table.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn among(mounts: &str, own: &str) -> Option<Hierarchy> {
        let mounts: Vec<_> = mounts.lines().filter_map(Mount::parse).collect();
        Hierarchy::among(&mounts, own)
    }

    #[test]
    fn version_1_is_found_with_controllers_mounted_together_or_apart() {
        let mounts = "30 25 0:26 / /sys/fs/cgroup/memory rw,nosuid - cgroup cgroup rw,memory\n\
                      31 25 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
                      32 25 0:28 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n";
        let own = "4:memory:/user/a\n3:cpu,cpuacct:/\n2:pids:/user\n0::/\n";
        let expected = ["memory/user/a", "pids/user", "cpu,cpuacct/", "cpu,cpuacct/"];
        let expected = expected.map(|path| Path::new("/sys/fs/cgroup").join(path)).to_vec();
        assert_eq!(among(mounts, own), Some(Hierarchy::V1(expected)));
    }

    #[test]
    fn in_a_container_the_mount_begins_at_its_own_cgroup() {
        let mounts =
            NEEDED.map(|name| format!("30 25 0:26 /docker/abc /cg/{name} rw - cgroup cgroup rw,{name}\n")).concat();
        let own = NEEDED.map(|name| format!("1:{name}:/docker/abc\n")).concat();
        let Some(Hierarchy::V1(tops)) = among(&mounts, &own) else { panic!("not found") };
        assert_eq!(tops[0], Path::new("/cg/memory/"));
    }

    #[test]
    fn a_missing_controller_is_no_hierarchy() {
        let mounts = "30 25 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        assert_eq!(among(mounts, "4:memory:/\n"), None);
    }

    #[test]
    fn tables_are_read_by_the_whole_name() {
        let table = "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n";
        assert_eq!(find(table, "oom_kill"), Some(3));
        assert_eq!(find("total_active_file 7\nactive_file 5\n", "active_file"), Some(5));
    }
}
