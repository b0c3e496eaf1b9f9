//! Process 1 of a sandbox: ours, and root, but in the sandbox's own namespaces. It starts the program, waits for it, ends
//! what it leaves, and says what happened. The program is of another user and can neither signal, trace nor read it; and
//! since it is not in the program's cgroup, it is not in its limits either.
//!
//! When it ends, the kernel ends every process that may be left in its namespace: nothing escapes that.

use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use landlock::RulesetCreated;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, set_parent_process_death_signal, wait, waitpid};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::clone::fork_into;
use super::message::{Answer, Birth, Ended, Entrance, Failure, How, Order, Prepare, Run, failed, receive, send};
use super::seccomp::Filter;
use super::{Defence, confine, enter, mount as mounts};

/// Exit code of one that has served; any other ends its zygote.
pub const SERVED: i32 = 0;
const NOT_SERVED: i32 = 1;
const WORKSPACE: &str = "/workspace";
const SCRATCH: [&str; 2] = ["/tmp", "/dev/shm"];
/// What is mounted for a run, but for its workspace: no setuid bits, no devices, no programs.
const INERT: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV).union(MountFlags::NOEXEC);

/// The life of process 1, to its exit code.
pub fn live(
    birth: &Birth,
    filter: &Filter,
    socket: BorrowedFd<'_>,
    order: Prepare,
    cgroups: &[OwnedFd],
    first: bool,
) -> i32 {
    let told = match Ready::make(birth, filter, order, cgroups) {
        Ok(mut ready) => match first.then(|| ready.guest.await_preparation()) {
            Some(Err(failure)) => Err(failure),
            Some(Ok(())) if send(socket, &Answer::Ready, &[]).is_err() => return NOT_SERVED,
            _ => match take_order(socket) {
                Some((run, descriptors)) => ready.serve(&run, descriptors, socket),
                None => return NOT_SERVED,
            },
        },
        Err(failure) => Err(failure),
    };
    let served = told.is_ok();
    let heard = send(socket, &told.unwrap_or_else(Answer::from), &[]).is_ok();
    if birth.without.contains(&Defence::EndOfEverybody) {
        // Our own end would be theirs.
        while wait(WaitOptions::empty()).is_ok() {}
    }
    if served && heard { SERVED } else { NOT_SERVED }
}

fn take_order(socket: BorrowedFd<'_>) -> Option<(Run, Vec<OwnedFd>)> {
    loop {
        match receive(socket).ok()?? {
            (Order::Run(run), descriptors) => return Some((run, descriptors)),
            // It came too late for the run that it was meant for.
            (Order::Kill, _) => {}
            (Order::Prepare(_), _) => return None,
        }
    }
}

/// A sandbox with everything in it but the program.
struct Ready<'a> {
    birth: &'a Birth,
    filter: &'a Filter,
    order: Prepare,
    cgroups: &'a [OwnedFd],
    children: OwnedFd,
    rules: Option<RulesetCreated>,
    guest: Guest,
}

impl<'a> Ready<'a> {
    fn make(birth: &'a Birth, filter: &'a Filter, order: Prepare, cgroups: &'a [OwnedFd]) -> Result<Self, Failure> {
        // From here on "everybody" can be killed: that must be nobody else's everybody.
        if !rustix::process::getpid().is_init() {
            return Err(Failure::new("being process 1", Errno::PERM));
        }
        set_parent_process_death_signal(Some(Signal::KILL)).map_err(failed("tying itself to its zygote"))?;
        if !birth.without.contains(&Defence::UtsNamespace) {
            rustix::system::sethostname(b"sandbox").map_err(failed("naming the host"))?;
        }
        // Only processes, and only those of one's own user: not a word about the machine.
        let shown = if birth.without.contains(&Defence::OwnProc) { c"" } else { c"subset=pid,hidepid=2" };
        mount("proc", "/proc", "proc", INERT, shown).map_err(failed("mounting /proc"))?;
        for scratch in SCRATCH {
            mount("tmpfs", scratch, "tmpfs", INERT, Some(&*scratch_options(birth.tmp_mb, birth)))
                .map_err(failed("mounting scratch space"))?;
        }
        let rules = match birth.without.contains(&Defence::Landlock) {
            true => None,
            false => Some(confine::rules()?),
        };
        let children = children_that_end().map_err(failed("watching for children"))?;
        let guest = Guest::make(birth, filter, order, cgroups, &rules)?;
        Ok(Self { birth, filter, order, cgroups, children, rules, guest })
    }

    fn serve(&mut self, run: &Run, descriptors: Vec<OwnedFd>, socket: BorrowedFd<'_>) -> Result<Answer, Failure> {
        let Ok([stdin, stdout, stderr, workspace]) = <[OwnedFd; 4]>::try_from(descriptors) else {
            return Err(Failure::new("taking descriptors", Errno::BADF));
        };
        mounts::attach(workspace.as_fd(), rustix::fs::CWD, WORKSPACE).map_err(failed("mounting the workspace"))?;
        drop(workspace);
        if run.tmp_mb != self.birth.tmp_mb {
            resize_scratch(run.tmp_mb, self.birth).map_err(failed("resizing scratch space"))?;
        }
        if run.writable {
            self.allow_building()?;
        }
        self.guest.become_program(run, &[stdin.as_fd(), stdout.as_fd(), stderr.as_fd()]);
        // The streams end when the guests end; we do not hold them open.
        drop((stdin, stdout, stderr));

        let (status, timed_out) = self.wait_for(Duration::from_millis(run.wall_ms), socket)?;
        let ended_ns = now_ns();
        if !self.birth.without.contains(&Defence::EndOfEverybody) {
            end_everybody();
        }
        self.guest.listen()?;
        let told = &mut self.guest.told;
        if let Some((doing, errno)) = told.failed.take() {
            return Ok(Answer::Failed { doing, errno });
        }
        let Some(began_ns) = told.began_ns else {
            return Err(Failure::new("starting the program", Errno::SRCH));
        };
        let how = match (told.not_started, status.exit_status(), status.terminating_signal()) {
            (Some(errno), ..) => How::NotStarted(errno),
            (None, Some(code), _) => How::Exited(code),
            (None, None, signal) => How::Signaled(signal.unwrap_or_default()),
        };
        let wall_ns = ended_ns.saturating_sub(began_ns);
        Ok(Answer::Ended(Ended { how, wall_ns, preparing_ns: told.preparing_ns, max_rss_kb: max_rss_kb(), timed_out }))
    }

    /// The one who waits has renounced all that already, so another one takes its place.
    fn allow_building(&mut self) -> Result<(), Failure> {
        rustix::process::kill_process(self.guest.pid, Signal::KILL)
            .map_err(failed("replacing the program's process"))?;
        waitpid(Some(self.guest.pid), WaitOptions::empty()).map_err(failed("replacing the program's process"))?;
        self.rules = self.rules.take().map(|rules| confine::allow_building(rules, WORKSPACE)).transpose()?;
        self.guest = Guest::make(self.birth, self.filter, self.order, self.cgroups, &self.rules)?;
        Ok(())
    }

    /// Until the program ends, by itself or because its time is over or we are told so. Orphans are ours to bury meanwhile:
    /// the dead count against the program's limit of processes until somebody asks for them.
    fn wait_for(&mut self, wall: Duration, socket: BorrowedFd<'_>) -> Result<(WaitStatus, bool), Failure> {
        let wall_ns = u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX);
        let (mut deadline, mut timed_out, mut listening) = (Some(now_ns().saturating_add(wall_ns)), false, true);
        loop {
            while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
                if pid == self.guest.pid {
                    return Ok((status, timed_out));
                }
            }
            let patience = deadline.map(|deadline| Duration::from_nanos(deadline.saturating_sub(now_ns())));
            let mut events =
                [PollFd::new(&self.children, PollFlags::IN), PollFd::from_borrowed_fd(socket, PollFlags::IN)];
            let watched = if listening { &mut events[..] } else { &mut events[..1] };
            let patience = patience.and_then(|patience| Timespec::try_from(patience).ok());
            match poll(watched, patience.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(failed("waiting for the program")(error)),
            }
            // At every turn: a guest may see to it that there is always something else.
            if deadline.is_some_and(|deadline| deadline <= now_ns()) {
                // Its time began when the program did, a moment after we began to wait.
                self.guest.listen()?;
                let due = self.guest.told.began_ns.unwrap_or(0).saturating_add(wall_ns);
                timed_out = due <= now_ns();
                deadline = (!timed_out).then_some(due);
                if timed_out {
                    kill_everybody();
                }
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

/// The process that waits to become the program.
struct Guest {
    pid: Pid,
    socket: OwnedFd,
    told: Told,
}

/// What was heard of it. Nobody listens before there is a need to: each time would cost a change of processes while the
/// program starts.
#[derive(Default)]
struct Told {
    began_ns: Option<u64>,
    preparing_ns: u64,
    not_started: Option<i32>,
    failed: Option<(String, i32)>,
}

impl Guest {
    fn make(
        birth: &Birth,
        filter: &Filter,
        order: Prepare,
        cgroups: &[OwnedFd],
        rules: &Option<RulesetCreated>,
    ) -> Result<Self, Failure> {
        let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
        let (ours, theirs) = pair.map_err(failed("making a socket"))?;
        let (born_into, join) = match order.entrance {
            Entrance::Birth => (cgroups.first().map(AsFd::as_fd), &[][..]),
            Entrance::Join => (None, cgroups),
        };
        // SAFETY: this process has one thread.
        match unsafe { fork_into(0, born_into) }.map_err(failed("starting the program's process"))? {
            None => enter::program(theirs.as_fd(), order.user, join, rules, filter, &birth.without),
            Some(pid) => Ok(Self { pid, socket: ours, told: Told::default() }),
        }
    }

    /// Until it has given up everything.
    fn await_preparation(&mut self) -> Result<(), Failure> {
        self.hear(receive(&self.socket).map_err(failed("hearing of the program's process"))?);
        match self.told.failed.take() {
            None => Ok(()),
            Some((doing, errno)) => Err(Failure::new(doing, Errno::from_raw_os_error(errno))),
        }
    }

    /// If it is dead, it has told why, or somebody killed it; that is seen when it is waited for.
    fn become_program(&self, run: &Run, streams: &[BorrowedFd<'_>]) {
        let _ = send(&self.socket, run, streams);
    }

    /// Takes what has been told by now.
    fn listen(&mut self) -> Result<(), Failure> {
        rustix::io::ioctl_fionbio(&self.socket, true).map_err(failed("hearing of the program's process"))?;
        loop {
            match receive(&self.socket) {
                Ok(Some(progress)) => self.hear(Some(progress)),
                Ok(None) => return Ok(()),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(failed("hearing of the program's process")(error)),
            }
        }
    }

    fn hear(&mut self, progress: Option<(Progress, Vec<OwnedFd>)>) {
        let told = &mut self.told;
        match progress.map(|(progress, _)| progress) {
            Some(Progress::Prepared) | None => {}
            Some(Progress::Starting { at_ns, cpu_ns }) => (told.began_ns, told.preparing_ns) = (Some(at_ns), cpu_ns),
            Some(Progress::NotStarted { errno }) => told.not_started = Some(errno),
            Some(Progress::Failed { doing, errno }) => told.failed = Some((doing, errno)),
        }
    }
}

/// What the program's process tells before it becomes the program.
#[derive(Serialize, Deserialize)]
pub enum Progress {
    /// It has given up what it had.
    Prepared,
    /// At this time, after this much work since it was told to.
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

/// Of `/tmp` and `/dev/shm`. They hold memory, which counts as the program's.
fn scratch_options(megabytes: u64, birth: &Birth) -> std::ffi::CString {
    let size = match birth.without.contains(&Defence::ScratchLimit) {
        true => String::new(),
        false => format!(",nr_inodes=16k,size={megabytes}m"),
    };
    std::ffi::CString::new(format!("mode=1777{size}")).unwrap_or_default()
}

fn resize_scratch(megabytes: u64, birth: &Birth) -> Result<(), Errno> {
    SCRATCH.into_iter().try_for_each(|scratch| {
        rustix::mount::mount_remount(scratch, INERT, scratch_options(megabytes, birth).as_c_str())
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
