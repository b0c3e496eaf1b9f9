//! One run, from its order to its outcome, seen from the worker.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{Gid, Mode, OFlags, Uid};
use rustix::pipe::PipeFlags;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;

use super::cgroup::{Peak, Used};
use super::message::{Answer, Ended, How, Order, Run, Words};
use super::pool::Zygote;
use super::toolchain::Toolchain;
use super::{Defence, Shared, mount};
use crate::sandbox::copy::{self, Budget, Stopped};
use crate::sandbox::output::Capture;
use crate::sandbox::{Access, Exit, Invocation, Killed, OnOverflow, Outcome, SandboxError, Workspace};

/// Process 1 has its own timer. If it says nothing for so long after that, something of ours is broken.
const ANSWERED_WITHIN: Duration = Duration::from_secs(20);
/// Dying is work, done in the guest's own time. One that has not died by then gets all the time that it needs.
const DIES_WITHIN: Duration = Duration::from_secs(1);
const MOST_ENTRIES: usize = 10_000;
const MIB: u64 = 1 << 20;

pub async fn run(shared: &Arc<Shared>, invocation: &Invocation<'_>) -> Result<Outcome, SandboxError> {
    let toolchain = Toolchain::of(invocation.language, &shared.settings.native)?;
    let limits = &invocation.limits;
    let zygote = shared.pool.take(&toolchain.root).await?;
    let mut held = Held { zygote: Some(zygote), workspace: invocation.workspace.clone(), shared: Arc::clone(shared) };
    let place = Place::make(invocation, shared)?;
    let order = Order::Run(Run {
        command: words(invocation.command)?,
        environment: words(&environment(invocation, &toolchain.environment, shared))?,
        wall_ms: limits.wall.as_millis() as u64,
        tmp_mb: limits.tmp_mb,
        file_mb: shared.settings.workspace_limit_mb.max(limits.tmp_mb),
        memory_mb: limits.memory_mb,
        writable: invocation.access == Access::ReadWrite,
    });
    held.zygote().cgroup.begin(limits)?;
    let (ended, seen) = watch(&mut held, &order, &place, invocation).await?;
    let used = held.zygote().cgroup.used();
    let full = place.is_full();
    let outcome = seen.outcome(ended, used, full);
    if outcome.killed.is_none() && !outcome.oom && place.bring_home(invocation.workspace)? == Brought::TooMuch {
        held.put_back(place);
        return Ok(Outcome { killed: Some(Killed::Disk), ..outcome });
    }
    held.put_back(place);
    Ok(outcome)
}

fn words(words: &[String]) -> Result<Words, SandboxError> {
    let nul = || SandboxError::failed("reading a command or its environment", "it has a NUL byte");
    Words::new(words.iter().map(String::as_str)).ok_or_else(nul)
}

/// What is said later holds, as in Docker: the image's, ours, the language's.
fn environment(invocation: &Invocation<'_>, base: &[(String, String)], shared: &Shared) -> Vec<String> {
    let inherited = match shared.without.contains(&Defence::CleanEnvironment) {
        true => std::env::vars().collect(),
        false => Vec::new(),
    };
    let own = [("HOME", "/tmp"), ("HOSTNAME", "sandbox"), ("LANG", "C.UTF-8")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
    let languages = invocation.environment.clone();
    let all: BTreeMap<_, _> = inherited.into_iter().chain(base.to_vec()).chain(own).chain(languages).collect();
    all.into_iter().map(|(name, value)| format!("{name}={value}")).collect()
}

/// What a run has for itself. If the run is dropped half-way, its zygote ends it, and only then the rest is let go.
struct Held {
    zygote: Option<Zygote>,
    workspace: Workspace,
    shared: Arc<Shared>,
}

impl Held {
    fn zygote(&mut self) -> &mut Zygote {
        self.zygote.as_mut().expect("held until the end")
    }

    /// The run is over, and nobody is left of it.
    fn put_back(&mut self, place: Place) {
        // What was written there counts for the cgroup until it is gone.
        drop(place);
        self.zygote.take().into_iter().for_each(|zygote| self.shared.pool.put_back(zygote));
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let Some(zygote) = self.zygote.take() else { return };
        let workspace = self.workspace.clone();
        self.shared.ending.spawn(async move {
            zygote.end().await;
            drop(workspace);
        });
    }
}

/// What is mounted as the program's workspace.
enum Place {
    /// The workspace itself, read-only.
    ReadOnly(OwnedFd),
    /// A file system in memory, of bounded size, with a copy of the workspace. What is in it afterwards is copied back by
    /// us, as nothing but files, folders and links, whatever the guest made.
    Scratch { mount: OwnedFd, limit_mb: u64 },
}

#[derive(PartialEq)]
enum Brought {
    Home,
    TooMuch,
}

impl Place {
    fn make(invocation: &Invocation<'_>, shared: &Shared) -> Result<Self, SandboxError> {
        let failed = |error: rustix::io::Errno| SandboxError::failed("mounting a workspace", error);
        let workspace = invocation.workspace.handle();
        match invocation.access {
            Access::ReadOnly => {
                let mount = mount::bind(workspace).map_err(failed)?;
                let mut attributes = mount::INERT;
                if !shared.without.contains(&Defence::ReadOnlyWorkspace) {
                    attributes |= mount::READ_ONLY;
                }
                mount::restrict(mount.as_fd(), attributes).map_err(failed)?;
                Ok(Self::ReadOnly(mount))
            }
            Access::ReadWrite => {
                let limit_mb = shared.settings.workspace_limit_mb;
                let bounded = if shared.without.contains(&Defence::WorkspaceLimit) { 0 } else { limit_mb };
                let mount = mount::tmpfs(bounded, MOST_ENTRIES as u64, "777").map_err(failed)?;
                mount::restrict(mount.as_fd(), mount::INERT).map_err(failed)?;
                let mut budget = Budget { bytes: limit_mb * MIB, entries: MOST_ENTRIES, only_public: false };
                copy::tree(workspace, open(&mount).map_err(failed)?.as_fd(), &mut budget)
                    .map_err(|stopped| failed(stopped.errno()))?;
                Ok(Self::Scratch { mount, limit_mb })
            }
        }
    }

    fn mount(&self) -> BorrowedFd<'_> {
        match self {
            Self::ReadOnly(mount) | Self::Scratch { mount, .. } => mount.as_fd(),
        }
    }

    /// Whether the guest ran into its bounds.
    fn is_full(&self) -> bool {
        let Self::Scratch { mount, .. } = self else { return false };
        rustix::fs::fstatfs(mount).is_ok_and(|room| room.f_blocks > 0 && (room.f_bfree == 0 || room.f_ffree == 0))
    }

    fn bring_home(&self, workspace: &Workspace) -> Result<Brought, SandboxError> {
        let Self::Scratch { mount, limit_mb } = self else { return Ok(Brought::Home) };
        let failed = |error: rustix::io::Errno| SandboxError::failed("keeping what was compiled", error);
        let mut budget = Budget { bytes: limit_mb * MIB, entries: MOST_ENTRIES, only_public: false };
        workspace.clear()?;
        match copy::tree(open(mount).map_err(failed)?.as_fd(), workspace.handle(), &mut budget) {
            Ok(()) => Ok(Brought::Home),
            Err(Stopped::TooMuch) => Ok(Brought::TooMuch),
            Err(Stopped::Failed(errno)) => Err(failed(errno)),
        }
    }
}

/// The folder that a mount begins with, to be read; a fresh mount is only a place.
fn open(mount: &OwnedFd) -> Result<OwnedFd, rustix::io::Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(mount, ".", flags, Mode::empty())
}

/// What was seen from outside.
struct Seen {
    stdout: Capture,
    stderr: Capture,
    killed: Option<Killed>,
}

/// Gives the order and reads what the program writes, until process 1 has told how it ended and both streams have ended.
async fn watch(
    held: &mut Held,
    order: &Order,
    place: &Place,
    invocation: &Invocation<'_>,
) -> Result<(Ended, Seen), SandboxError> {
    let limits = &invocation.limits;
    let failed = |error: io::Error| SandboxError::failed("running a program", error);
    let (stdin, input) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(|error| failed(error.into()))?;
    let (mut stdout, output) = stream().map_err(failed)?;
    let (mut stderr, errors) = stream().map_err(failed)?;
    let rest = fill(&input, invocation.stdin).map_err(failed)?;
    // Also by name, as /dev/stdin, which asks whose they are.
    let (uid, gid) = (Uid::from_raw(held.zygote().user), Gid::from_raw(held.zygote().user));
    for theirs in [&stdin, &output, &errors] {
        rustix::fs::fchown(theirs, Some(uid), Some(gid)).map_err(|error| failed(error.into()))?;
    }

    let descriptors = [stdin.as_fd(), output.as_fd(), errors.as_fd(), place.mount()];
    held.zygote().order(order, &descriptors).map_err(failed)?;
    drop((stdin, output, errors));

    let mut feeding = std::pin::pin!(feed(input, rest));
    let mut seen = Seen {
        stdout: Capture::new(limits.output_bytes, 0),
        stderr: Capture::new(limits.output_bytes, 0),
        killed: None,
    };
    let (mut fed, mut stdout_open, mut stderr_open, mut ended) = (false, true, true, None);
    let mut deadline = std::pin::pin!(tokio::time::sleep(limits.wall + ANSWERED_WITHIN));
    let (mut hurry, mut hurried) = (std::pin::pin!(tokio::time::sleep(limits.wall + DIES_WITHIN)), false);
    let mut buffers = ([0; 16 * 1024], [0; 16 * 1024]);
    while ended.is_none() || stdout_open || stderr_open {
        tokio::select! {
            read = stdout.read(&mut buffers.0), if stdout_open => match read.map_err(failed)? {
                0 => stdout_open = false,
                length => seen.stdout.push(&buffers.0[..length]),
            },
            read = stderr.read(&mut buffers.1), if stderr_open => match read.map_err(failed)? {
                0 => stderr_open = false,
                length => seen.stderr.push(&buffers.1[..length]),
            },
            answer = held.zygote().answer(), if ended.is_none() => match answer? {
                Answer::Ended(told) => ended = Some(told),
                Answer::Failed { doing, errno } => return Err(SandboxError::failed(doing, io::Error::from_raw_os_error(errno))),
                Answer::Ready => return Err(SandboxError::failed("running a program", "its zygote began anew")),
            },
            () = &mut feeding, if !fed => fed = true,
            () = &mut hurry, if !hurried => {
                hurried = true;
                held.zygote().cgroup.lift_quota();
            }
            () = &mut deadline => return Err(SandboxError::failed("running a program", "its sandbox does not answer")),
        }
        let overflowed = seen.stdout.overflowed() || seen.stderr.overflowed();
        if overflowed && limits.on_overflow == OnOverflow::Kill && seen.killed.is_none() {
            seen.killed = Some(Killed::Output);
            if ended.is_none() {
                // If it cannot be told, it is dead, and we hear of that.
                let _ = held.zygote().order(&Order::Kill, &[]);
                hurry.as_mut().reset(tokio::time::Instant::now() + DIES_WITHIN);
            }
        }
    }
    let ended = ended.ok_or_else(|| SandboxError::failed("running a program", "it never ended"))?;
    Ok((ended, seen))
}

/// Our end does not block; the guest's does, as programs expect it.
fn stream() -> io::Result<(pipe::Receiver, OwnedFd)> {
    let (ours, theirs) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    Ok((pipe::Receiver::from_owned_fd(ours)?, theirs))
}

/// Writes as much as the pipe takes at once, mostly everything. What is left is fed while the program runs.
fn fill<'a>(input: &OwnedFd, stdin: &'a [u8]) -> io::Result<&'a [u8]> {
    rustix::io::ioctl_fionbio(input, true)?;
    let mut rest = stdin;
    while !rest.is_empty() {
        match rustix::io::write(input, rest) {
            Ok(written) => rest = &rest[written..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(rest)
}

/// Then closes it. A program that does not read it, or closes it, is free to do so.
async fn feed(input: OwnedFd, rest: &[u8]) {
    if !rest.is_empty()
        && let Ok(mut input) = pipe::Sender::from_owned_fd(input)
    {
        let _ = input.write_all(rest).await;
    }
}

impl Seen {
    fn outcome(self, ended: Ended, used: Used, full: bool) -> Outcome {
        let timed_out = ended.timed_out.then_some(Killed::WallTime);
        let out_of_room = (full && !matches!(ended.how, How::Exited(0))).then_some(Killed::Disk);
        let killed = self.killed.or(timed_out).or(out_of_room);
        let exit = match ended.how {
            // The signal that we sent says nothing about the program.
            _ if matches!(killed, Some(Killed::WallTime | Killed::Output)) => Exit::Unknown,
            How::Exited(code) => Exit::Code(code),
            How::Signaled(signal) => Exit::Signal(signal),
            How::NotStarted(errno) => Exit::NotStarted(io::Error::from_raw_os_error(errno).to_string()),
        };
        Outcome {
            exit,
            wall: Duration::from_nanos(ended.wall_ns),
            cpu: used.cpu.saturating_sub(Duration::from_nanos(ended.preparing_ns)),
            peak_memory_bytes: peak_memory(&used, ended.max_rss_kb * 1024),
            oom: used.oom,
            killed,
            stdout: self.stdout.finish(0),
            stderr: self.stderr.finish(0),
        }
    }
}

/// What is counted for the cgroup, without what is not the program's own; but not less than the largest of its processes,
/// because what is not its own may have come or gone since.
fn peak_memory(used: &Used, largest: u64) -> u64 {
    match used.peak {
        Some(Peak { whole, not_own }) => whole.saturating_sub(not_own).max(largest.min(whole)),
        None => largest,
    }
}
