//! Entering the sandbox: a list of steps, then the program. What is given up here is never had again.
//!
//! Most of it happens before there is a program to run, so that nobody waits for it.

use std::borrow::Cow;
use std::convert::Infallible;
use std::ffi::{CStr, CString};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use landlock::RulesetCreated;
use rustix::io::Errno;
use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};
use rustix::thread::{CapabilitySet, CapabilitySets, UnshareFlags, unshare_unsafe};
use rustix::time::ClockId;

use super::clone::leave;
use super::init::{Progress, nanoseconds, now_ns};
use super::message::{Failure, Run, Words, failed, receive, send};
use super::seccomp::Filter;
use super::{Defence, confine};

/// Who the program is to itself.
const INSIDE: u32 = 1000;
const OPEN_FILES: u64 = 1024;
const STACK_BYTES: u64 = 8 << 20;
const MIB: u64 = 1 << 20;

/// Gives up everything, waits to be told which program to be, and becomes it. If that fails, it says so and ends.
pub fn program(
    init: BorrowedFd<'_>,
    user: u32,
    cgroups: &[OwnedFd],
    rules: &Option<RulesetCreated>,
    filter: &Filter,
    without: &[Defence],
) -> ! {
    let with = |defence| !without.contains(&defence);
    let ended = give_up(user, cgroups, rules, filter, &with).and_then(|()| begin(init, &with));
    if let Err(Failure { doing, errno }) = ended {
        // Nobody is left to hear of a failure to tell.
        let _ = send(init, &Progress::Failed { doing, errno: errno.raw_os_error() }, &[]);
    }
    leave(1)
}

fn give_up(
    user: u32,
    cgroups: &[OwnedFd],
    rules: &Option<RulesetCreated>,
    filter: &Filter,
    with: &impl Fn(Defence) -> bool,
) -> Result<(), Failure> {
    join(cgroups).map_err(failed("joining the cgroups"))?;
    if with(Defence::CgroupNamespace) {
        unshare(UnshareFlags::NEWCGROUP).map_err(failed("making a cgroup namespace"))?;
    }
    rustix::process::setsid().map_err(failed("starting a session"))?;
    reset_signals().map_err(failed("resetting signals"))?;
    if with(Defence::UnprivilegedUser) {
        become_user(user).map_err(failed("becoming another user"))?;
    }
    if with(Defence::UserNamespace) {
        let outside = if with(Defence::UnprivilegedUser) { user } else { 0 };
        own_user_namespace(outside).map_err(failed("making a user namespace"))?;
    }
    if with(Defence::Capabilities) {
        drop_capabilities().map_err(failed("dropping capabilities"))?;
    }
    if with(Defence::NoNewPrivileges) {
        rustix::thread::set_no_new_privs(true).map_err(failed("renouncing privileges"))?;
    }
    rules.as_ref().map_or(Ok(()), confine::obey)?;
    if with(Defence::Seccomp) {
        filter.load().map_err(failed("loading the filter of system calls"))?;
    }
    Ok(())
}

/// `Ok` if it is told nothing, or to be a program that cannot be started.
fn begin(init: BorrowedFd<'_>, with: &impl Fn(Defence) -> bool) -> Result<(), Failure> {
    send(init, &Progress::Prepared, &[]).map_err(failed("telling of the preparation"))?;
    let order = receive::<Run>(init).map_err(failed("hearing which program to be"))?;
    let Some((run, streams)) = order else { return Ok(()) };
    let before_ns = nanoseconds(ClockId::ProcessCPUTime);
    let program = Program::of(&run);

    take_streams(&streams).map_err(failed("taking the streams"))?;
    set_limits(&run, with).map_err(failed("setting limits"))?;
    rustix::process::chdir("/workspace").map_err(failed("entering the workspace"))?;
    if with(Defence::ClosedDescriptors) {
        close_the_rest().map_err(failed("closing descriptors"))?;
    }
    let cpu_ns = nanoseconds(ClockId::ProcessCPUTime).saturating_sub(before_ns);
    send(init, &Progress::Starting { at_ns: now_ns(), cpu_ns }, &[]).map_err(failed("telling of the start"))?;
    let Err(reason) = program.start();
    send(init, &Progress::NotStarted { errno: reason.raw_os_error() }, &[]).map_err(failed("telling of the start"))
}

/// Writing 0 moves the writer. By the `tasks` file, of a process with one thread, this takes microseconds; by
/// `cgroup.procs` it may take the kernel ten milliseconds.
fn join(cgroups: &[OwnedFd]) -> Result<(), Errno> {
    cgroups.iter().try_for_each(|tasks| rustix::io::write(tasks, b"0").map(drop))
}

fn unshare(flags: UnshareFlags) -> Result<(), Errno> {
    // SAFETY: this process has one thread, and shares nothing with another that these namespaces would tear apart.
    unsafe { unshare_unsafe(flags) }
}

fn take_streams(streams: &[OwnedFd]) -> Result<(), Errno> {
    let [stdin, stdout, stderr] = streams else { return Err(Errno::BADF) };
    rustix::stdio::dup2_stdin(stdin)?;
    rustix::stdio::dup2_stdout(stdout)?;
    rustix::stdio::dup2_stderr(stderr)
}

fn set_limits(run: &Run, with: &impl Fn(Defence) -> bool) -> Result<(), Errno> {
    let at_most = |limit: u64| Rlimit { current: Some(limit), maximum: Some(limit) };
    let limits = [
        // Not 0, which does not stop a dump that is piped to a program of the host's; 1 stops both kinds.
        (Defence::CoreLimit, Resource::Core, at_most(1)),
        (Defence::OpenFilesLimit, Resource::Nofile, at_most(OPEN_FILES)),
        (Defence::FileSizeLimit, Resource::Fsize, at_most(run.file_mb * MIB)),
        // A program that needs a deep stack may ask for one as large as its memory.
        (
            Defence::StackLimit,
            Resource::Stack,
            Rlimit { current: Some(STACK_BYTES), maximum: Some((run.memory_mb * MIB).max(STACK_BYTES)) },
        ),
    ];
    limits.into_iter().filter(|(defence, ..)| with(*defence)).try_for_each(|(_, what, limit)| setrlimit(what, limit))
}

fn become_user(user: u32) -> Result<(), Errno> {
    let (uid, gid) = (rustix::process::Uid::from_raw(user), rustix::process::Gid::from_raw(user));
    rustix::thread::set_thread_groups(&[])?;
    rustix::thread::set_thread_res_gid(gid, gid, gid)?;
    rustix::thread::set_thread_res_uid(uid, uid, uid)
}

/// Every other namespace belongs to the host's user namespace, so that no capability in this one counts for them.
fn own_user_namespace(outside: u32) -> Result<(), Errno> {
    unshare(UnshareFlags::NEWUSER)?;
    // A process that is not dumpable does not own its files in /proc.
    set_dumpable_behavior(DumpableBehavior::Dumpable)?;
    let written = |path: &str, text: &str| {
        std::fs::write(path, text).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
    };
    let map = format!("{INSIDE} {outside} 1");
    written("/proc/self/setgroups", "deny")?;
    written("/proc/self/gid_map", &map)?;
    written("/proc/self/uid_map", &map)
}

fn drop_capabilities() -> Result<(), Errno> {
    for capability in 0.. {
        // SAFETY: takes integers, touches no memory.
        if unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) } != 0 {
            match Errno::from_io_error(&std::io::Error::last_os_error()) {
                // There are no more.
                Some(Errno::INVAL) => break,
                // Without a user namespace there is nothing left to drop it with, and it means nothing.
                Some(Errno::PERM) => break,
                other => return Err(other.unwrap_or(Errno::IO)),
            }
        }
    }
    let none = CapabilitySet::empty();
    rustix::thread::set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
}

/// As a program expects them: what we ignore, or were told to ignore by whoever started us, would be ignored by it too.
fn reset_signals() -> std::io::Result<()> {
    // SAFETY: the set is initialised by sigemptyset before it is read.
    unsafe {
        for signal in 1..=libc::SIGRTMAX() {
            // Some cannot be changed, and are as they should be.
            libc::signal(signal, libc::SIG_DFL);
        }
        let mut none = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        match libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut()) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    }
}

/// When the program starts: until then we need one of them.
fn close_the_rest() -> std::io::Result<()> {
    // SAFETY: marks descriptors, closes none, touches no memory.
    match unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// What the kernel wants to know of a program.
struct Program<'a> {
    /// Where it may be, in the order of PATH.
    paths: Vec<Cow<'a, CStr>>,
    arguments: Vec<*const libc::c_char>,
    environment: Vec<*const libc::c_char>,
    /// What the pointers point to.
    _run: &'a Run,
}

impl<'a> Program<'a> {
    fn of(run: &'a Run) -> Self {
        let pointers = |words: &Words| words.iter().map(CStr::as_ptr).chain([std::ptr::null()]).collect();
        let name = run.command.iter().next().unwrap_or_default();
        let paths = match name.to_bytes().contains(&b'/') {
            true => vec![Cow::Borrowed(name)],
            false => in_path(name, run),
        };
        Self { paths, arguments: pointers(&run.command), environment: pointers(&run.environment), _run: run }
    }

    /// Returns only if it cannot be started.
    fn start(&self) -> Result<Infallible, Errno> {
        let mut reason = Errno::NOENT;
        for path in &self.paths {
            match self.execute(path) {
                Errno::NOENT | Errno::NOTDIR => {}
                // Perhaps another one further down the path may be started.
                Errno::ACCESS => reason = Errno::ACCESS,
                other => return Err(other),
            }
        }
        Err(reason)
    }

    fn execute(&self, path: &CStr) -> Errno {
        let mut patience = 50;
        loop {
            // SAFETY: both arrays end with a null pointer, and what they point to is borrowed for as long as `self` lives.
            unsafe { libc::execve(path.as_ptr(), self.arguments.as_ptr(), self.environment.as_ptr()) };
            match Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO) {
                // Somewhere a new process of the worker's still has the descriptor by which this program was written, until
                // it becomes what it was made for.
                Errno::TXTBSY if patience > 0 => {
                    patience -= 1;
                    std::thread::sleep(Duration::from_millis(2));
                }
                other => return other,
            }
        }
    }
}

fn in_path<'a>(name: &CStr, run: &Run) -> Vec<Cow<'a, CStr>> {
    let search = run.environment.iter().find_map(|variable| variable.to_bytes().strip_prefix(b"PATH="));
    let folders = search.unwrap_or_default().split(|byte| *byte == b':');
    folders.filter_map(|folder| CString::new([folder, b"/", name.to_bytes()].concat()).ok()).map(Cow::Owned).collect()
}
