//! A cgroup around each container.
//!
//! A container's own cgroup is gone as soon as its last process is, and with it what we want to know. Its parent is ours
//! and stays until we remove it, so the parent is where the memory limit is set and where CPU time, peak memory and OOM
//! events are read, exactly and after the end.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};

use super::super::SandboxError;

/// All our cgroups are below this one.
const PARENT: &str = "tribunal";

/// The kernel's two ways to arrange cgroups.
#[derive(Debug, Clone, PartialEq)]
pub enum Hierarchy {
    /// One tree for each controller.
    V1 { memory: PathBuf, cpuacct: PathBuf, trees: Vec<PathBuf> },
    /// One tree for all.
    V2 { root: PathBuf },
}

/// What a run used.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Usage {
    pub cpu: Duration,
    pub peak_memory_bytes: u64,
    pub oom: bool,
}

impl Hierarchy {
    /// Finds out what is mounted at `root`, and that we may make cgroups there.
    pub fn detect(root: &Path) -> Result<Self, SandboxError> {
        let unfit = |problem: String| SandboxError::Unfit {
            problem,
            remedy: "Run the worker as root on the Docker daemon's host, or in a container with the host's \
                     /sys/fs/cgroup mounted, and set sandbox.docker.cgroup_root to where it is"
                .into(),
        };
        let hierarchy = if root.join("cgroup.controllers").exists() {
            Self::V2 { root: root.to_owned() }
        } else {
            let tree = |names: &[&str], file: &str| {
                let found = names.iter().map(|name| root.join(name)).find(|tree| tree.join(file).exists());
                found.ok_or_else(|| unfit(format!("no cgroup with {file} below {}", root.display())))
            };
            let memory = tree(&["memory"], "memory.limit_in_bytes")?;
            let cpuacct = tree(&["cpuacct", "cpu,cpuacct"], "cpuacct.usage")?;
            let entries = fs::read_dir(root).map_err(|error| unfit(format!("{}: {error}", root.display())))?;
            let trees = entries.flatten().map(|entry| entry.path()).filter(|path| path.join("cgroup.procs").exists());
            Self::V1 { memory, cpuacct, trees: trees.collect() }
        };
        hierarchy
            .make_parent()
            .map_err(|error| unfit(format!("cannot make cgroups below {}: {error}", root.display())))?;
        if matches!(&hierarchy, Self::V2 { root } if !root.join(PARENT).join("memory.peak").exists()) {
            return Err(SandboxError::Unfit {
                problem: "this kernel does not record a cgroup's peak memory".into(),
                remedy: "With cgroup v2, Linux 5.19 or newer is needed".into(),
            });
        }
        Ok(hierarchy)
    }

    fn make_parent(&self) -> io::Result<()> {
        match self {
            Self::V1 { memory, cpuacct, .. } => {
                make(&memory.join(PARENT))?;
                make(&cpuacct.join(PARENT))?;
                // Kernels before 5.11 count children only if told to.
                let hierarchical = memory.join(PARENT).join("memory.use_hierarchy");
                match fs::read_to_string(&hierarchical) {
                    Ok(value) if value.trim() == "0" => fs::write(hierarchical, "1"),
                    _ => Ok(()),
                }
            }
            Self::V2 { root } => {
                let controllers = "+memory +cpu +pids";
                fs::write(root.join("cgroup.subtree_control"), controllers)?;
                make(&root.join(PARENT))?;
                fs::write(root.join(PARENT).join("cgroup.subtree_control"), controllers)
            }
        }
    }

    /// Every tree in which the container runtime makes the parents of its cgroups.
    fn trees(&self) -> &[PathBuf] {
        match self {
            Self::V1 { trees, .. } => trees,
            Self::V2 { root } => std::slice::from_ref(root),
        }
    }

    /// Removes what a dead worker left; its containers must be gone already.
    pub fn remove_all_of(&self, worker: &str) {
        for tree in self.trees() {
            let ours = fs::read_dir(tree.join(PARENT)).into_iter().flatten().flatten();
            for entry in ours.filter(|entry| entry.file_name().to_string_lossy().starts_with(worker)) {
                let _ = fs::remove_dir(entry.path());
            }
        }
    }
}

fn make(path: &Path) -> io::Result<()> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// The cgroup of one run. Removed when dropped, which must be after its container is gone.
pub struct RunCgroup {
    hierarchy: Hierarchy,
    name: String,
    /// Counts OOM events on v1, where no file does it for the children.
    oom_events: Option<OwnedFd>,
}

impl RunCgroup {
    pub fn create(hierarchy: &Hierarchy, name: String, memory_bytes: u64) -> Result<Self, SandboxError> {
        let mut run = Self { hierarchy: hierarchy.clone(), name, oom_events: None };
        run.set_up(memory_bytes)
            .map_err(|error| SandboxError::failed(format!("making the cgroup {}", run.name), error))?;
        Ok(run)
    }

    fn set_up(&mut self, memory_bytes: u64) -> io::Result<()> {
        match &self.hierarchy {
            Hierarchy::V1 { memory, cpuacct, .. } => {
                let memory = memory.join(PARENT).join(&self.name);
                fs::create_dir(&memory)?;
                fs::create_dir(cpuacct.join(PARENT).join(&self.name))?;
                fs::write(memory.join("memory.limit_in_bytes"), memory_bytes.to_string())?;
                let control = fs::File::open(memory.join("memory.oom_control"))?;
                let events = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
                let registration = format!("{} {}", events.as_raw_fd(), control.as_raw_fd());
                fs::write(memory.join("cgroup.event_control"), registration)?;
                self.oom_events = Some(events);
                Ok(())
            }
            Hierarchy::V2 { root } => {
                let group = root.join(PARENT).join(&self.name);
                fs::create_dir(&group)?;
                fs::write(group.join("memory.max"), memory_bytes.to_string())?;
                // The container's cgroup below gets its limits only if its parent hands the controllers on.
                fs::write(group.join("cgroup.subtree_control"), "+memory +cpu +pids")
            }
        }
    }

    /// As the Docker daemon wants to hear it.
    pub fn docker_parent(&self) -> String {
        format!("/{PARENT}/{}", self.name)
    }

    pub fn usage(&self) -> Result<Usage, SandboxError> {
        self.read_usage().map_err(|error| SandboxError::failed(format!("reading the cgroup {}", self.name), error))
    }

    fn read_usage(&self) -> io::Result<Usage> {
        match &self.hierarchy {
            Hierarchy::V1 { memory, cpuacct, .. } => {
                let memory = memory.join(PARENT).join(&self.name);
                let cpu_ns = read_number(&cpuacct.join(PARENT).join(&self.name).join("cpuacct.usage"))?;
                let oom = match &self.oom_events {
                    Some(events) => match rustix::io::read(events, &mut [0u8; 8]) {
                        Ok(_) => true,
                        Err(rustix::io::Errno::AGAIN) => false,
                        Err(error) => return Err(error.into()),
                    },
                    None => false,
                };
                let peak_memory_bytes = read_number(&memory.join("memory.max_usage_in_bytes"))?;
                Ok(Usage { cpu: Duration::from_nanos(cpu_ns), peak_memory_bytes, oom })
            }
            Hierarchy::V2 { root } => {
                let group = root.join(PARENT).join(&self.name);
                let cpu_us = read_field(&group.join("cpu.stat"), "usage_usec")?;
                Ok(Usage {
                    cpu: Duration::from_micros(cpu_us),
                    peak_memory_bytes: read_number(&group.join("memory.peak"))?,
                    // Counts the children's too.
                    oom: read_field(&group.join("memory.events"), "oom_kill")? > 0,
                })
            }
        }
    }
}

impl Drop for RunCgroup {
    fn drop(&mut self) {
        for tree in self.hierarchy.trees() {
            match fs::remove_dir(tree.join(PARENT).join(&self.name)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    tracing::warn!(cgroup = self.name, tree = %tree.display(), %error, "a cgroup could not be removed");
                }
                _ => {}
            }
        }
    }
}

fn read_number(path: &Path) -> io::Result<u64> {
    let text = fs::read_to_string(path)?;
    text.trim().parse().map_err(|_| io::Error::other(format!("{}: {text:?} is no number", path.display())))
}

fn read_field(path: &Path, field: &str) -> io::Result<u64> {
    let text = fs::read_to_string(path)?;
    let value = text.lines().find_map(|line| line.strip_prefix(field)?.trim().parse().ok());
    value.ok_or_else(|| io::Error::other(format!("{}: no {field}", path.display())))
}
