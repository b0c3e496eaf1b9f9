//! Process 1 of a sandbox: ours, and root, but in the sandbox's own namespaces. It starts the program, waits for it, ends
//! what it leaves, and says what happened. The program is of another user and can neither signal, trace nor read it; and
//! since it is not in the program's cgroup, it is not in its limits either.
//!
//! When it ends, the kernel ends every process that may be left in its namespace: nothing escapes that.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use landlock::RulesetCreated;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, set_parent_process_death_signal, wait};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::clone::fork_into;
use super::message::{Answer, Birth, Ended, Failure, How, Order, Run, failed, receive, send};
use super::seccomp::Filter;
use super::{Defence, confine, enter, mount as mounts};

/// Exit code of one that has served; any other ends its zygote.
pub const SERVED: i32 = 0;
const NOT_SERVED: i32 = 1;
const WORKSPACE: &str = "/workspace";

/// The life of process 1, to its exit code.
pub fn live(birth: &Birth, filter: &Filter, socket: BorrowedFd<'_>, first: bool) -> i32 {
    let ready = match Ready::make(birth) {
        Ok(ready) => ready,
        Err(failure) => {
            let _ = send(socket, &Answer::from(failure), &[]);
            return NOT_SERVED;
        }
    };
    if first && send(socket, &Answer::Ready, &[]).is_err() {
        return NOT_SERVED;
    }
    loop {
        match receive(socket) {
            // It came too late for the run that it was meant for.
            Ok(Some((Order::Kill, _))) => {}
            Ok(Some((Order::Run(run), descriptors))) => {
                let answer = ready.serve(&run, descriptors, birth, filter, socket);
                let told = send(socket, &answer.unwrap_or_else(Answer::from), &[]);
                return if told.is_ok() { SERVED } else { NOT_SERVED };
            }
            Ok(None) | Err(_) => return NOT_SERVED,
        }
    }
}

/// All that does not depend on the order.
struct Ready {
    children: OwnedFd,
    rules: Option<RulesetCreated>,
}

/// What the program's process tells before it becomes the program.
#[derive(Serialize, Deserialize)]
pub enum Progress {
    /// At this time, after this much work.
    Starting {
        at_ns: u64,
        cpu_ns: u64,
    },
    NotStarted {
        errno: i32,
    },
    Failed {
        doing: String,
        errno: i32,
    },
}

impl Ready {
    fn make(birth: &Birth) -> Result<Self, Failure> {
        // From here on "everybody" can be killed: that must be nobody else's everybody.
        if !rustix::process::getpid().is_init() {
            return Err(Failure { doing: "being process 1", errno: Errno::PERM });
        }
        set_parent_process_death_signal(Some(Signal::KILL)).map_err(failed("tying itself to its zygote"))?;
        if !birth.without.contains(&Defence::UtsNamespace) {
            rustix::system::sethostname(b"sandbox").map_err(failed("naming the host"))?;
        }
        let inert = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        // Only processes, and only those of one's own user: not a word about the machine.
        let shown = if birth.without.contains(&Defence::OwnProc) { c"" } else { c"subset=pid,hidepid=2" };
        mount("proc", "/proc", "proc", inert, shown).map_err(failed("mounting /proc"))?;
        for scratch in ["/tmp", "/dev/shm"] {
            mount("tmpfs", scratch, "tmpfs", inert, Some(&*scratch_options(birth.tmp_mb, birth)))
                .map_err(failed("mounting scratch space"))?;
        }
        let rules = match birth.without.contains(&Defence::Landlock) {
            true => None,
            false => Some(confine::rules()?),
        };
        Ok(Self { children: children_that_end().map_err(failed("watching for children"))?, rules })
    }

    fn serve(
        mut self,
        run: &Run,
        descriptors: Vec<OwnedFd>,
        birth: &Birth,
        filter: &Filter,
        socket: BorrowedFd<'_>,
    ) -> Result<Answer, Failure> {
        let mut descriptors = descriptors.into_iter();
        let (Some(stdin), Some(stdout), Some(stderr), Some(workspace)) =
            (descriptors.next(), descriptors.next(), descriptors.next(), descriptors.next())
        else {
            return Err(Failure { doing: "taking descriptors", errno: Errno::BADF });
        };
        let cgroups: Vec<_> = descriptors.collect();
        mounts::attach(workspace.as_fd(), rustix::fs::CWD, WORKSPACE).map_err(failed("mounting the workspace"))?;
        drop(workspace);
        if run.tmp_mb != birth.tmp_mb {
            resize_scratch(run.tmp_mb, birth).map_err(failed("resizing scratch space"))?;
        }
        if run.writable {
            self.rules = self.rules.map(|rules| confine::allow_building(rules, WORKSPACE)).transpose()?;
        }

        let (progress, tell) =
            rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(failed("making a pipe"))?;
        let born_into = cgroups.first().filter(|_| run.born_into_cgroup).map(AsFd::as_fd);
        // SAFETY: this process has one thread.
        let program = match unsafe { fork_into(0, born_into) }.map_err(failed("starting the program's process"))? {
            None => {
                let join = if run.born_into_cgroup { &[] } else { &cgroups[..] };
                let streams = [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
                enter::program(run, streams, join, self.rules, filter, &birth.without, &File::from(tell))
            }
            Some(pid) => pid,
        };
        // The streams end when the guests end; we do not hold them open.
        drop((stdin, stdout, stderr, tell, cgroups));

        let (mut began_ns, mut preparing_ns, mut not_started) = (now_ns(), 0, None);
        for line in BufReader::new(File::from(progress)).lines() {
            let line = line.map_err(failed("hearing of the program's process"))?;
            match serde_json::from_str(&line).map_err(failed("hearing of the program's process"))? {
                Progress::Starting { at_ns, cpu_ns } => (began_ns, preparing_ns) = (at_ns, cpu_ns),
                Progress::NotStarted { errno } => not_started = Some(errno),
                Progress::Failed { doing, errno } => return Ok(Answer::Failed { doing, errno }),
            }
        }
        let deadline_ns = began_ns.saturating_add(run.wall_ms.saturating_mul(1_000_000));
        let (status, timed_out) = self.wait_for(program, deadline_ns, socket)?;
        let wall_ns = now_ns().saturating_sub(began_ns);
        if !birth.without.contains(&Defence::EndOfEverybody) {
            end_everybody();
        }
        let how = match (not_started, status.exit_status(), status.terminating_signal()) {
            (Some(errno), ..) => How::NotStarted(errno),
            (None, Some(code), _) => How::Exited(code),
            (None, None, signal) => How::Signaled(signal.unwrap_or_default()),
        };
        Ok(Answer::Ended(Ended { how, wall_ns, preparing_ns, max_rss_kb: max_rss_kb(), timed_out }))
    }

    /// Until the program ends, by itself or because its time is over or we are told so. Orphans are ours to bury meanwhile:
    /// the dead count against the program's limit of processes until somebody asks for them.
    fn wait_for(&self, program: Pid, deadline_ns: u64, socket: BorrowedFd<'_>) -> Result<(WaitStatus, bool), Failure> {
        let (mut deadline, mut timed_out, mut listening) = (Some(deadline_ns), false, true);
        loop {
            while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
                if pid == program {
                    return Ok((status, timed_out));
                }
            }
            let patience = deadline.map(|deadline| Duration::from_nanos(deadline.saturating_sub(now_ns())));
            let mut events =
                [PollFd::new(&self.children, PollFlags::IN), PollFd::from_borrowed_fd(socket, PollFlags::IN)];
            let watched = if listening { &mut events[..] } else { &mut events[..1] };
            let patience = patience.and_then(|patience| Timespec::try_from(patience).ok());
            let woken = match poll(watched, patience.as_ref()) {
                Err(Errno::INTR) => continue,
                other => other.map_err(failed("waiting for the program"))?,
            };
            if woken == 0 {
                timed_out = true;
                deadline = None;
                kill_everybody();
            }
            if !events[0].revents().is_empty() {
                // Who it was is asked of `wait`, which misses nobody.
                let _ = rustix::io::read(&self.children, &mut [0; size_of::<libc::signalfd_siginfo>()]);
            }
            if listening && !events[1].revents().is_empty() {
                // An order to stop, or the end of the worker. Whatever it is, the run is over.
                let heard = receive::<Order>(socket);
                listening = matches!(heard, Ok(Some(_)));
                kill_everybody();
            }
        }
    }
}

/// Of `/tmp` and `/dev/shm`. They hold memory, which counts as the program's.
fn scratch_options(megabytes: u64, birth: &Birth) -> std::ffi::CString {
    let size = match birth.without.contains(&Defence::ScratchLimit) {
        true => String::new(),
        false => format!(",nr_inodes=16k,size={megabytes}m"),
    };
    std::ffi::CString::new(format!("mode=1777{size}")).unwrap_or_default()
}

fn resize_scratch(megabytes: u64, birth: &Birth) -> Result<(), Errno> {
    let inert = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    ["/tmp", "/dev/shm"].into_iter().try_for_each(|scratch| {
        rustix::mount::mount_remount(scratch, inert, scratch_options(megabytes, birth).as_c_str())
    })
}

/// A descriptor that can be read from when a child has ended.
fn children_that_end() -> std::io::Result<OwnedFd> {
    // SAFETY: the set is initialised by sigemptyset before anything reads it, and the descriptor is a fresh one.
    unsafe {
        let mut signals = std::mem::zeroed();
        libc::sigemptyset(&mut signals);
        libc::sigaddset(&mut signals, libc::SIGCHLD);
        if libc::sigprocmask(libc::SIG_BLOCK, &signals, std::ptr::null_mut()) != 0 {
            return Err(std::io::Error::last_os_error());
        }
        match libc::signalfd(-1, &signals, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) {
            -1 => Err(std::io::Error::last_os_error()),
            descriptor => Ok(OwnedFd::from_raw_fd(descriptor)),
        }
    }
}

/// Everybody in this sandbox but ourselves.
fn kill_everybody() {
    // SAFETY: a plain system call. From process 1 of a namespace, -1 is everybody else in it; that we are it was checked.
    unsafe { libc::kill(-1, libc::SIGKILL) };
}

/// Kills until there is nobody left: what is forked in between is a child of ours by the next round.
fn end_everybody() {
    loop {
        kill_everybody();
        match wait(WaitOptions::empty()) {
            Err(Errno::CHILD) => return,
            _ => continue,
        }
    }
}

fn max_rss_kb() -> u64 {
    // SAFETY: all-zero is a valid value, and the call fills the struct that it is given.
    let usage = unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage);
        usage
    };
    usage.ru_maxrss as u64
}

pub fn now_ns() -> u64 {
    nanoseconds(ClockId::Monotonic)
}

pub fn nanoseconds(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
