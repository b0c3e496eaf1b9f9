//! A server that a test starts for itself, and treats badly.

use std::fs::OpenOptions;
use std::io;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Below the range from which the kernel serves clients: while a server is down, nobody else gets its port.
const PORTS: std::ops::Range<u16> = 23_000..32_000;
const PROBED_EVERY: Duration = Duration::from_millis(50);

/// Killed when dropped.
pub struct Daemon(Child);

impl Daemon {
    /// What it says is appended to the file. It is in a process group of its own, so that Ctrl-C reaches only the test,
    /// which decides the order in which things end.
    pub fn start(command: &mut Command, log: &Path) -> io::Result<Self> {
        let log = OpenOptions::new().create(true).append(true).open(log)?;
        let errors = log.try_clone()?;
        command.stdin(Stdio::null()).stdout(log).stderr(errors).process_group(0).spawn().map(Self)
    }

    /// `kill -9`; returns when it is gone.
    pub fn kill(&mut self) {
        // Fails only if it is gone already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }

    /// It stays, and its connections stay open, but it does nothing more until it is thawed.
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    pub fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    pub fn has_ended(&mut self) -> bool {
        !matches!(self.0.try_wait(), Ok(None))
    }

    fn signal(&self, signal: Signal) {
        // Our own child that nobody has waited for: the id is still its own. A dead one needs no signal.
        let _ = kill_process(Pid::from_child(&self.0), signal);
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A port on which nobody listens, never the same one twice.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Tests that run side by side begin at different places.
    let offset = u16::try_from(std::process::id() % u32::from(PORTS.end - PORTS.start)).expect("smaller than a u16");
    for _ in PORTS {
        let number = offset.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % (PORTS.end - PORTS.start);
        let port = PORTS.start + number;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("every port of {PORTS:?} is taken");
}

/// Asks until it is so; fails when the time is over.
pub fn within(patience: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + patience;
    loop {
        if holds() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(PROBED_EVERY);
    }
}
