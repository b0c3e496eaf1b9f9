//! The first process of every container. It starts the program, waits for it, ends whatever it left behind and reports
//! what only a parent can know: whether it exited or was killed by a signal, and when it really began.
//!
//! Without it the program itself would be process 1, for which the kernel ignores `abort()` and every other signal that
//! has no handler; and Docker tells exit code 139 and death by signal 11 with the same number.
//!
//! It is built by `build.rs` as one static executable, runs in any image, and knows nothing of Docker. Its user is the
//! program's, so it defends itself: it is not dumpable (no ptrace, no `/proc/1/fd`, no `/proc/1/environ`), process 1
//! cannot be killed from inside, and the report carries a nonce that the program never sees. The report is the last thing
//! written to stderr, and the nonce alone to stdout: by then nothing else lives in the container, so whoever has read both
//! has read everything, long before the container itself is gone.
//!
//! Report, little endian: nonce (16 bytes), kind (1), value (i32), wall time in ns (u64), CPU time used before the
//! program began in ns (u64), peak memory of the cgroup before it began (u64), its largest resident set in bytes (u64).

use std::ffi::{c_int, c_long, c_ulong};
use std::fs;
use std::io::{ErrorKind, Write};
use std::os::fd::FromRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, exit};
use std::time::{Duration, Instant};

const NONCE: &str = "TRIBUNAL_NONCE";
const EXITED: u8 = 0;
const SIGNALED: u8 = 1;
const NOT_STARTED: u8 = 2;

const ECHILD: i32 = 10;
const SIGKILL: c_int = 9;
const PR_SET_DUMPABLE: c_int = 4;

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
    fn wait4(pid: c_int, status: *mut c_int, options: c_int, usage: *mut Rusage) -> c_int;
    fn getrusage(who: c_int, usage: *mut Rusage) -> c_int;
    fn kill(pid: c_int, signal: c_int) -> c_int;
}

struct Report {
    kind: u8,
    value: i32,
    wall: Duration,
    cpu_before_ns: u64,
    peak_before: u64,
    max_rss: u64,
}

fn main() {
    set_dumpable(false);
    let nonce = std::env::var(NONCE).unwrap_or_default();
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    let (Some((program, arguments)), 16) = (words.split_first(), nonce.len()) else {
        eprintln!("usage: {NONCE}=<16 bytes> init PROGRAM [ARGUMENT]...");
        exit(2);
    };

    let cpu_before_ns = cgroup_cpu_ns().unwrap_or_else(own_cpu_ns);
    let peak_before = cgroup_peak().unwrap_or(0);
    let mut command = Command::new(program);
    command.args(arguments).env_remove(NONCE);
    // SAFETY: the closure runs in the forked child of a single-threaded process, where anything is allowed.
    unsafe {
        command.pre_exec(|| {
            // A process that is not dumpable does not own its files in /proc.
            set_dumpable(true);
            // If memory runs out, the program goes and not its parent. Raising the score needs no privilege; a runtime
            // that does not have the file has no such killer.
            let _ = fs::write("/proc/self/oom_score_adj", "1000");
            Ok(())
        });
    }
    let spawned = command.spawn();
    let began = Instant::now();

    let report = match spawned {
        Ok(child) => {
            let (status, usage) = wait_for(child.id() as c_int);
            let wall = began.elapsed();
            let (kind, value) = match status & 0x7f {
                0 => (EXITED, (status >> 8) & 0xff),
                signal => (SIGNALED, signal),
            };
            Report { kind, value, wall, cpu_before_ns, peak_before, max_rss: usage.max_rss_kb as u64 * 1024 }
        }
        Err(error) => {
            let value = error.raw_os_error().unwrap_or(0);
            Report { kind: NOT_STARTED, value, wall: Duration::ZERO, cpu_before_ns, peak_before, max_rss: 0 }
        }
    };
    end_everything_else();
    write_all(1, nonce.as_bytes());
    write_all(2, &report.to_bytes(nonce.as_bytes()));
}

fn set_dumpable(dumpable: bool) {
    // SAFETY: takes an integer, touches no memory.
    unsafe { prctl(PR_SET_DUMPABLE, dumpable.into()) };
}

/// Orphans become children of process 1, so anything may turn up here before the one that is waited for.
fn wait_for(program: c_int) -> (c_int, Rusage) {
    loop {
        let (mut status, mut usage) = (0, Rusage::default());
        // SAFETY: both pointers are to live locals of the types that wait4 fills.
        if unsafe { wait4(-1, &mut status, 0, &mut usage) } == program {
            return (status, usage);
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

impl Report {
    fn to_bytes(&self, nonce: &[u8]) -> Vec<u8> {
        let mut bytes = nonce.to_vec();
        bytes.push(self.kind);
        bytes.extend(self.value.to_le_bytes());
        bytes.extend((self.wall.as_nanos() as u64).to_le_bytes());
        for number in [self.cpu_before_ns, self.peak_before, self.max_rss] {
            bytes.extend(number.to_le_bytes());
        }
        bytes
    }
}

/// Without a buffer, which would lose what a non-blocking pipe does not take at once.
fn write_all(descriptor: c_int, mut bytes: &[u8]) {
    // SAFETY: stdout and stderr are open since before main, and nobody uses them after this.
    let mut stream = unsafe { fs::File::from_raw_fd(descriptor) };
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

/// What making the container cost so far: it is charged to the same cgroup, and is not the program's.
fn cgroup_cpu_ns() -> Option<u64> {
    let v1 = ["/sys/fs/cgroup/cpuacct/cpuacct.usage", "/sys/fs/cgroup/cpu,cpuacct/cpuacct.usage"];
    v1.iter().find_map(|path| read_number(path)).or_else(|| {
        let stat = fs::read_to_string("/sys/fs/cgroup/cpu.stat").ok()?;
        let usage = stat.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
        usage.trim().parse::<u64>().ok()?.checked_mul(1000)
    })
}

fn own_cpu_ns() -> u64 {
    let mut usage = Rusage::default();
    // SAFETY: the pointer is to a live local of the type that getrusage fills; 0 is the calling process.
    unsafe { getrusage(0, &mut usage) };
    let microseconds = |[seconds, micros]: [c_long; 2]| seconds as u64 * 1_000_000 + micros as u64;
    (microseconds(usage.user) + microseconds(usage.system)) * 1000
}

fn cgroup_peak() -> Option<u64> {
    read_number("/sys/fs/cgroup/memory/memory.max_usage_in_bytes").or_else(|| read_number("/sys/fs/cgroup/memory.peak"))
}

fn read_number(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}
