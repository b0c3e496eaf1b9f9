//! The first process of every container. It starts the program, waits for it, ends whatever it left behind and reports
//! what only a parent in the same cgroup can know for sure: whether the program exited or was killed by a signal, when it
//! really began, what it used, and whether the kernel's OOM killer struck.
//!
//! Without it the program itself would be process 1, for which the kernel ignores `abort()` and every other signal that
//! has no handler; Docker tells exit code 139 and death by signal 11 with the same number; and a container's cgroup is
//! gone, with all its counters, as soon as its last process is.
//!
//! It is built by `build.rs` as one static executable, runs in any image, and knows nothing of Docker. Its user is the
//! program's, so it defends itself: it is not dumpable (no ptrace, no `/proc/1/fd`, no `/proc/1/environ`), process 1
//! cannot be killed from inside, its counters are open before the program lives, and the report carries a nonce that the
//! program never sees. The report is the last thing written to stderr, and the nonce alone to stdout: by then nothing else
//! lives in the container, so whoever has read both has read everything, long before the container itself is gone.
//!
//! SIGTERM, which is how a run is cut short, kills everything but itself; then it reports as always, and says if the signal came
//! from outside: a daemon that shuts down sends it as well as the worker, and the program is not to blame for that.
//!
//! Report, little endian: nonce (16 bytes), kind (1, with its highest bit set if it was stopped from outside), value (i32), and four times u64: wall time in ns, CPU time in ns,
//! peak memory in bytes, kills by the OOM killer.

use std::ffi::{c_int, c_long, c_ulong, c_void};
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::fd::FromRawFd;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, exit};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const NONCE: &str = "TRIBUNAL_NONCE";
const EXITED: u8 = 0;
const SIGNALED: u8 = 1;
const NOT_STARTED: u8 = 2;
const STOPPED_FROM_OUTSIDE: u8 = 0x80;

/// Somebody outside of this container wants it to end.
static STOPPED: AtomicBool = AtomicBool::new(false);

const ECHILD: i32 = 10;
const SIGKILL: c_int = 9;
const SIGTERM: c_int = 15;
const PR_SET_DUMPABLE: c_int = 4;
const RUSAGE_CHILDREN: c_int = -1;
const SA_SIGINFO: c_int = 4;
const SA_RESTART: c_int = 0x1000_0000;

/// As the C library lays them out on 64-bit Linux.
#[repr(C)]
struct SignalAction {
    handler: extern "C" fn(c_int, *const SignalInfo, *mut c_void),
    mask: [c_ulong; 16],
    flags: c_int,
    restorer: usize,
}

#[repr(C)]
struct SignalInfo {
    number: c_int,
    error: c_int,
    code: c_int,
    padding: c_int,
    /// The sender's process, as it is called in here: 0 if it is not in here.
    sender: c_int,
}

#[repr(C)]
#[derive(Default)]
struct Rusage {
    user: [c_long; 2],
    system: [c_long; 2],
    max_rss_kb: c_long,
    rest: [c_long; 13],
}

unsafe extern "C" {
    fn prctl(option: c_int, argument: c_ulong, ...) -> c_int;
    fn sigaction(signal: c_int, action: *const SignalAction, before: *mut SignalAction) -> c_int;
    fn wait4(pid: c_int, status: *mut c_int, options: c_int, usage: *mut Rusage) -> c_int;
    fn getrusage(who: c_int, usage: *mut Rusage) -> c_int;
    fn kill(pid: c_int, signal: c_int) -> c_int;
}

fn main() {
    set_dumpable(false);
    let nonce = std::env::var(NONCE).unwrap_or_default();
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    let (Some((program, arguments)), 16) = (words.split_first(), nonce.len()) else {
        eprintln!("usage: {NONCE}=<16 bytes> init PROGRAM [ARGUMENT]...");
        exit(2);
    };
    let action = SignalAction { handler: cut_short, mask: [0; 16], flags: SA_SIGINFO | SA_RESTART, restorer: 0 };
    // SAFETY: both structures are laid out as the C library's, a null pointer for the old one is allowed, and the handler does
    // nothing that is not safe to do in a handler.
    unsafe { sigaction(SIGTERM, &action, std::ptr::null_mut()) };
    let counters = Counters::open();
    let before = counters.read();

    let mut command = Command::new(program);
    command.args(arguments).env_remove(NONCE);
    // SAFETY: the closure runs in the forked child of a single-threaded process, where anything is allowed.
    unsafe {
        command.pre_exec(|| {
            // A process that is not dumpable does not own its files in /proc.
            set_dumpable(true);
            // If memory runs out, the program goes first and not its parent. It can undo this, and then we may die with it:
            // the worker asks the daemon in that case. A runtime that does not have the file has no such killer.
            let _ = fs::write("/proc/self/oom_score_adj", "1000");
            Ok(())
        });
    }
    let began = Instant::now();
    let spawned = command.spawn();
    let (kind, value) = match &spawned {
        Ok(child) => match wait_for(child.id() as c_int) {
            status if status & 0x7f == 0 => (EXITED, (status >> 8) & 0xff),
            status => (SIGNALED, status & 0x7f),
        },
        Err(error) => (NOT_STARTED, error.raw_os_error().unwrap_or(0)),
    };
    let wall = began.elapsed();
    let stopped = if STOPPED.load(Ordering::Relaxed) { STOPPED_FROM_OUTSIDE } else { 0 };
    end_everything_else();

    let used = counters.read().since(&before);
    let mut report = nonce.as_bytes().to_vec();
    report.push(kind | stopped);
    report.extend(value.to_le_bytes());
    for number in [wall.as_nanos() as u64, used.cpu_ns, used.peak, used.oom_kills] {
        report.extend(number.to_le_bytes());
    }
    write_all(1, nonce.as_bytes());
    write_all(2, &report);
}

fn set_dumpable(dumpable: bool) {
    // SAFETY: takes an integer, touches no memory.
    unsafe { prctl(PR_SET_DUMPABLE, dumpable.into()) };
}

extern "C" fn cut_short(_signal: c_int, info: *const SignalInfo, _context: *mut c_void) {
    // SAFETY: with SA_SIGINFO the kernel hands over a valid structure.
    if unsafe { (*info).sender } == 0 {
        STOPPED.store(true, Ordering::Relaxed);
    }
    // SAFETY: a plain system call. From process 1, -1 is everybody else.
    unsafe { kill(-1, SIGKILL) };
}

/// Orphans become children of process 1, so anything may turn up here before the one that is waited for.
fn wait_for(program: c_int) -> c_int {
    loop {
        let mut status = 0;
        // SAFETY: the pointer is to a live local; a null usage pointer is allowed.
        if unsafe { wait4(-1, &mut status, 0, std::ptr::null_mut()) } == program {
            return status;
        }
    }
}

/// Kills until there is nobody left: what is forked in between is a child of ours by the next round.
fn end_everything_else() {
    loop {
        // SAFETY: plain system calls; a null usage pointer is allowed.
        let reaped = unsafe {
            kill(-1, SIGKILL);
            wait4(-1, &mut 0, 0, std::ptr::null_mut())
        };
        if reaped == -1 && std::io::Error::last_os_error().raw_os_error() == Some(ECHILD) {
            return;
        }
    }
}

/// Without a buffer, which would lose what a non-blocking pipe does not take at once.
fn write_all(descriptor: c_int, mut bytes: &[u8]) {
    // SAFETY: stdout and stderr are open since before main, and nobody uses them after this.
    let mut stream = unsafe { File::from_raw_fd(descriptor) };
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(written) => bytes = &bytes[written..],
            // The program may have made the pipe non-blocking; whoever reads it is awake.
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(_) => return,
        }
    }
}

/// The files in which the kernel counts for this container, of cgroup v1 or v2, whichever is there. They are opened before
/// the program lives, so that it cannot take away what opening them needs.
struct Counters {
    cpu: Option<File>,
    peak: Option<File>,
    oom: Option<File>,
}

struct Counts {
    cpu_ns: u64,
    peak: u64,
    oom_kills: u64,
}

impl Counters {
    fn open() -> Self {
        let first = |paths: &[&str]| paths.iter().find_map(|path| File::open(format!("/sys/fs/cgroup/{path}")).ok());
        Self {
            cpu: first(&["cpuacct/cpuacct.usage", "cpu,cpuacct/cpuacct.usage", "cpu.stat"]),
            peak: first(&["memory/memory.max_usage_in_bytes", "memory.peak"]),
            oom: first(&["memory/memory.oom_control", "memory.events"]),
        }
    }

    fn read(&self) -> Counts {
        let waited_for = Self::of_children();
        let cpu_ns = self.cpu.as_ref().and_then(|file| {
            let text = read(file)?;
            // v1 is one number in ns, v2 a table in µs.
            text.trim().parse().ok().or_else(|| field(&text, "usage_usec")?.checked_mul(1000))
        });
        let peak = self.peak.as_ref().and_then(|file| read(file)?.trim().parse().ok());
        Counts {
            cpu_ns: cpu_ns.unwrap_or(waited_for.cpu_ns),
            peak: peak.unwrap_or(waited_for.peak),
            oom_kills: self.oom.as_ref().and_then(|file| field(&read(file)?, "oom_kill")).unwrap_or(0),
        }
    }

    /// What the kernel counts of those we waited for: for runtimes without these files.
    fn of_children() -> Counts {
        let mut usage = Rusage::default();
        // SAFETY: the pointer is to a live local of the type that getrusage fills.
        unsafe { getrusage(RUSAGE_CHILDREN, &mut usage) };
        let ns = |[seconds, micros]: [c_long; 2]| seconds as u64 * 1_000_000_000 + micros as u64 * 1000;
        let cpu_ns = ns(usage.user) + ns(usage.system);
        Counts { cpu_ns, peak: usage.max_rss_kb as u64 * 1024, oom_kills: 0 }
    }
}

impl Counts {
    /// Making the container was charged to the same cgroup, and is not the program's.
    fn since(self, before: &Self) -> Self {
        // As long as the program stays below the peak of that, the peak is not its own.
        let own_peak = if self.peak > before.peak { self.peak } else { Counters::of_children().peak.min(self.peak) };
        Self {
            cpu_ns: self.cpu_ns.saturating_sub(before.cpu_ns),
            peak: own_peak,
            oom_kills: self.oom_kills.saturating_sub(before.oom_kills),
        }
    }
}

fn read(file: &File) -> Option<String> {
    let mut buffer = [0; 4096];
    let length = file.read_at(&mut buffer, 0).ok()?;
    String::from_utf8(buffer[..length].to_vec()).ok()
}

fn field(table: &str, name: &str) -> Option<u64> {
    table.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}
