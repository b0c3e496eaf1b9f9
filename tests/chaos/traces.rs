//! What dead workers left on this host.

use std::fs;
use std::path::{Path, PathBuf};

use tribunal_tests::binary;

/// Where the workers of one fleet leave traces.
pub struct Grounds {
    /// Their workspace roots.
    pub roots: Vec<PathBuf>,
    /// The name of the cgroup above theirs, which nobody else uses.
    pub cgroup: String,
    /// Below it there are no mounts but those of ours.
    pub folder: PathBuf,
    pub mounts: Vec<PathBuf>,
}

impl Grounds {
    /// The folders of workers, living and dead.
    pub fn tenants(&self) -> Vec<PathBuf> {
        self.roots.iter().flat_map(|root| entries(root)).collect()
    }

    /// Everything, when no worker is alive any more.
    pub fn traces(&self) -> Vec<String> {
        let mut traces: Vec<_> = self.tenants().iter().map(|path| format!("folder {}", path.display())).collect();
        traces.extend(self.cgroups().iter().map(|path| format!("cgroup {}", path.display())));
        traces.extend(self.strange_mounts().into_iter().map(|path| format!("mount {path}")));
        traces.extend(processes().into_iter().map(|(pid, words)| format!("process {pid}: {words}")));
        traces
    }

    fn cgroups(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        folders_called(Path::new("/sys/fs/cgroup"), &self.cgroup, &mut found);
        found
    }

    fn strange_mounts(&self) -> Vec<String> {
        let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let points = table.lines().filter_map(|line| line.split(' ').nth(4).map(str::to_owned));
        let ours = |point: &String| self.mounts.iter().any(|mount| mount == Path::new(point));
        points.filter(|point| Path::new(point).starts_with(&self.folder) && !ours(point)).collect()
    }

    /// By force, so that an interrupted run leaves nothing either.
    pub fn clear(&self) {
        for (pid, _) in processes() {
            let _ = std::process::Command::new("kill").args(["-KILL", &pid.to_string()]).status();
        }
        for cgroup in self.cgroups() {
            clear_cgroup(&cgroup);
        }
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

fn folders_called(top: &Path, name: &str, found: &mut Vec<PathBuf>) {
    for path in entries(top) {
        if !path.is_dir() || path.is_symlink() {
            continue;
        }
        if path.file_name().is_some_and(|own| own == name) {
            found.push(path);
        } else {
            folders_called(&path, name, found);
        }
    }
}

fn clear_cgroup(cgroup: &Path) {
    for path in entries(cgroup).into_iter().filter(|path| path.is_dir()) {
        clear_cgroup(&path);
    }
    for pid in fs::read_to_string(cgroup.join("cgroup.procs")).unwrap_or_default().lines() {
        let _ = std::process::Command::new("kill").args(["-KILL", pid]).status();
    }
    let _ = fs::remove_dir(cgroup);
}

/// Processes of our workers' binaries: workers, and what makes their sandboxes.
fn processes() -> Vec<(u32, String)> {
    let binaries = ["tribunal-worker", "tribunal-worker-failing"].map(binary);
    let of_ours = |entry: &Path| {
        let pid: u32 = entry.file_name()?.to_str()?.parse().ok()?;
        // A process may end while it is looked at, and a zombie runs nothing.
        let program = fs::read_link(entry.join("exe")).ok()?;
        let words = fs::read(entry.join("cmdline")).ok()?;
        let words = String::from_utf8_lossy(&words).replace('\0', " ");
        binaries.contains(&program).then_some((pid, words))
    };
    entries(Path::new("/proc")).iter().filter_map(|entry| of_ours(entry)).collect()
}
