//! The zygotes of a worker, seen from the worker.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use tokio::io::unix::AsyncFd;
use tribunal_shared::config::SandboxSettings;

use super::cgroup::{Cgroup, Cgroups};
use super::message::{Answer, Birth, Order, Prepare, RootFolder, receive, send};
use super::{Defence, zygote};
use crate::sandbox::{SandboxError, guest};

/// A zygote that has not built its root by then never will.
const READY_WITHIN: Duration = Duration::from_secs(10);
/// One whose run takes longer to die than this is helped.
const ENDS_WITHIN: Duration = Duration::from_secs(10);

/// Zygotes that wait for an order, by what they show as `/`.
pub struct Pool {
    idle: Mutex<HashMap<RootFolder, VecDeque<Zygote>>>,
    most_idle: usize,
    tmp_mb: u64,
    cgroups: Cgroups,
    without: Vec<Defence>,
}

impl Pool {
    pub fn new(settings: &SandboxSettings, slots: usize, cgroups: Cgroups, without: &[Defence]) -> Self {
        Self {
            idle: Mutex::default(),
            // One more than can be busy: while the next sandbox of one is being prepared, another one is ready.
            most_idle: slots + 1,
            tmp_mb: settings.tmp_mb,
            cgroups,
            without: without.to_vec(),
        }
    }

    pub fn cgroups(&self) -> &Cgroups {
        &self.cgroups
    }

    fn idle(&self) -> MutexGuard<'_, HashMap<RootFolder, VecDeque<Zygote>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The one that has waited longest, or a new one. If that leaves nobody waiting, another one is made for the next.
    pub async fn take(self: &Arc<Self>, root: &RootFolder) -> Result<Zygote, SandboxError> {
        let (taken, left) = {
            let mut idle = self.idle();
            let waiting = idle.entry(root.clone()).or_default();
            // Somebody may have killed it while nobody looked.
            let taken =
                std::iter::from_fn(|| waiting.pop_front()).find_map(|mut zygote| zygote.lives().then_some(zygote));
            (taken, waiting.len())
        };
        if left == 0 {
            let (pool, root) = (Arc::clone(self), root.clone());
            tokio::spawn(async move {
                if let Ok(zygote) = pool.start(&root).await {
                    pool.keep(zygote);
                }
            });
        }
        match taken {
            Some(zygote) => Ok(zygote),
            None => self.start(root).await,
        }
    }

    /// Back from a run of which nobody is left. It prepares the next.
    pub fn put_back(&self, mut zygote: Zygote) {
        let cleared = zygote.cgroup.clears();
        if !cleared {
            match self.cgroups.make() {
                Ok(fresh) => zygote.cgroup = fresh,
                Err(error) => return tracing::warn!(%error, "a zygote is given up"),
            }
        }
        // One that cannot be told is dead, and forgotten.
        if zygote.prepare(!cleared).is_ok() {
            self.keep(zygote);
        }
    }

    pub fn keep(&self, zygote: Zygote) {
        let mut idle = self.idle();
        let root = zygote.root.clone();
        idle.entry(root.clone()).or_default().push_back(zygote);
        while idle.values().map(VecDeque::len).sum::<usize>() > self.most_idle {
            // Those of another root first: that one is not what is asked for now.
            let other = idle.iter().find(|(other, waiting)| **other != root && !waiting.is_empty());
            let from = other.map_or(root.clone(), |(other, _)| other.clone());
            idle.get_mut(&from).and_then(VecDeque::pop_front);
        }
    }

    pub async fn start(&self, root: &RootFolder) -> Result<Zygote, SandboxError> {
        let failed = |error: io::Error| SandboxError::failed("starting a zygote", error);
        let mut zygote = Zygote::spawn(root, self.cgroups.make()?).map_err(failed)?;
        let birth = Birth { root: root.clone(), tmp_mb: self.tmp_mb, without: self.without.clone() };
        send(zygote.socket.get_ref(), &birth, &[]).and_then(|()| zygote.prepare(true)).map_err(failed)?;
        match tokio::time::timeout(READY_WITHIN, zygote.answer()).await {
            Ok(Ok(Answer::Ready)) => Ok(zygote),
            Ok(Ok(Answer::Failed { doing, errno })) => Err(cannot(&doing, errno)),
            Ok(Ok(Answer::Ended(_))) => Err(SandboxError::failed("starting a zygote", "it ended what was never begun")),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(SandboxError::failed("starting a zygote", "it is not ready in time")),
        }
    }
}

/// What the kernel did not let us do when a sandbox was to be made.
fn cannot(doing: &str, errno: i32) -> SandboxError {
    SandboxError::Unfit {
        problem: format!("no sandbox can be made here: {doing}: {}", io::Error::from_raw_os_error(errno)),
        remedy: "Run it as root, outside of containers or in a privileged one, on Linux 5.12 or newer with overlayfs, \
                 user namespaces and seccomp; `tribunal doctor` looks at each; or set sandbox.kind = \"docker\""
            .into(),
    }
}

/// A process that makes sandboxes, one at a time. It ends, with all that it made, when this is dropped.
pub struct Zygote {
    root: RootFolder,
    /// Of the sandbox that it has ready, as is `user`.
    pub cgroup: Cgroup,
    pub user: u32,
    socket: AsyncFd<OwnedFd>,
    process: Child,
}

impl Zygote {
    fn spawn(root: &RootFolder, cgroup: Cgroup) -> io::Result<Self> {
        let (ours, theirs) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        rustix::io::ioctl_fionbio(&ours, true)?;
        let process = Command::new("/proc/self/exe")
            .arg0(zygote::NAME)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .spawn()?;
        // SAFETY: an OwnedFd is the same open descriptor for as long as it lives, and it lives in here.
        let socket = unsafe { AsyncFd::register(ours) }?;
        Ok(Self { root: root.clone(), cgroup, user: guest::fresh_user(), socket, process })
    }

    fn ends_within(&self, patience: Duration) -> bool {
        let ended = || -> rustix::io::Result<bool> {
            let pid = rustix::process::Pid::from_child(&self.process);
            let process = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())?;
            let patience = Timespec::try_from(patience).map_err(|_| rustix::io::Errno::INVAL)?;
            Ok(poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&patience))? > 0)
        };
        ended().unwrap_or(true)
    }

    fn lives(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(None))
    }

    fn prepare(&mut self, new_cgroup: bool) -> io::Result<()> {
        self.user = guest::fresh_user();
        let entrances: Vec<_> = self.cgroup.entrances().filter(|_| new_cgroup).collect();
        let order = Prepare { entrance: self.cgroup.entrance(), user: self.user };
        self.order(&Order::Prepare(order), &entrances)
    }

    pub fn order(&self, order: &Order, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        send(self.socket.get_ref(), order, descriptors)
    }

    pub async fn answer(&mut self) -> Result<Answer, SandboxError> {
        let answer = self.socket.async_io(tokio::io::Interest::READABLE, |socket| receive(socket.as_fd())).await;
        match answer {
            Ok(Some((answer, _))) => Ok(answer),
            Ok(None) => Err(SandboxError::failed("making a sandbox", "its zygote died")),
            Err(error) => Err(SandboxError::failed("making a sandbox", error)),
        }
    }

    /// Ends it, and with it its run; returns when both are gone.
    pub async fn end(self) {
        // A thread that waits, because what is waited for takes a moment only.
        let _ = tokio::task::spawn_blocking(move || drop(self)).await;
    }
}

impl Drop for Zygote {
    fn drop(&mut self) {
        // Both sides of a closed socket know what to do; what it had ready ends with it.
        let _ = rustix::net::shutdown(self.socket.get_ref(), rustix::net::Shutdown::Both);
        if !self.ends_within(ENDS_WITHIN) {
            // What it made ends with it even so, by the kernel's hand.
            let _ = self.process.kill();
        }
        let _ = self.process.wait();
    }
}
