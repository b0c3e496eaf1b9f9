//! The zygote: a small process with one thread that starts sandboxes by copying itself. Forking the worker instead would be
//! slow, because of its memory, and wrong, because of its threads.
//!
//! It builds the root of its runs once, then has one process 1 at a time: the next is made, with everything that does not
//! depend on the program, while nobody waits for it. That process takes the order to run from the socket itself, so the
//! zygote is not in the way. When the worker is gone, the socket says so, and everything ends.
//!
//! It is this same executable, started anew under another name.

use std::os::fd::BorrowedFd;
use std::process::exit;

use rustix::io::Errno;
use rustix::process::{DumpableBehavior, WaitOptions, set_dumpable_behavior, waitpid};
use rustix::thread::UnshareFlags;

use super::clone::Stack;
use super::message::{Answer, Birth, Failure, Order, failed, receive, send};
use super::seccomp::Filter;
use super::{Defence, init, root};

/// What a zygote is called, and how it knows what it is.
pub const NAME: &str = "tribunal-zygote";

/// Must be the first thing in `main` of every program that uses this sandbox: if this process was started to be a
/// zygote, it serves as one and does not return.
pub fn serve_if_zygote() {
    if std::env::args_os().next().is_some_and(|name| name == NAME) {
        let socket = rustix::stdio::stdin();
        if let Err(failure) = serve(socket) {
            // If nobody hears it, nobody waits for it.
            let _ = send(socket, &Answer::from(failure), &[]);
            exit(1);
        }
        exit(0);
    }
}

fn serve(socket: BorrowedFd<'_>) -> Result<(), Failure> {
    let Some((birth, _)) = receive::<Birth>(socket).map_err(failed("being told what to be"))? else { return Ok(()) };
    let filter = Filter::from_list().map_err(|problem| {
        eprintln!("{NAME}: {problem}");
        Failure::new("building the filter of system calls", Errno::INVAL)
    })?;
    set_signals();
    // For people who look at a list of processes; it would say `exe`.
    rustix::thread::set_name(c"tribunal-zygote").map_err(failed("naming itself"))?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(failed("hiding from debuggers"))?;
    // When the whole machine runs out of memory, guests go first, and we rather than the worker.
    std::fs::write("/proc/self/oom_score_adj", "1000").map_err(failed("offering itself to the OOM killer"))?;
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));

    let mut own = UnshareFlags::NEWNS;
    // Making one takes as long as running a program, so it is made here and not for each run. There is nothing in it, and
    // never two runs at once; what a run leaves there are sockets, and those die with it.
    if !birth.without.contains(&Defence::NetworkNamespace) {
        own |= UnshareFlags::NEWNET;
    }
    // SAFETY: this process has one thread, and shares nothing with another that these namespaces would tear apart.
    unsafe { rustix::thread::unshare_unsafe(own) }.map_err(failed("making a mount and a network namespace"))?;
    root::enter(&birth.root, &birth.without)?;

    let mut namespaces = libc::CLONE_NEWNS | libc::CLONE_NEWPID;
    for (defence, namespace) in
        [(Defence::IpcNamespace, libc::CLONE_NEWIPC), (Defence::UtsNamespace, libc::CLONE_NEWUTS)]
    {
        if !birth.without.contains(&defence) {
            namespaces |= namespace;
        }
    }
    let mut stack = Stack::new().map_err(failed("making a stack"))?;
    let mut cgroups = Vec::new();
    let mut first = true;
    loop {
        let order = match receive(socket).map_err(failed("being told to prepare"))? {
            None => return Ok(()),
            Some((Order::Prepare(order), descriptors)) => {
                if !descriptors.is_empty() {
                    cgroups = descriptors;
                }
                order
            }
            // It came too late for the run that it was meant for.
            Some((Order::Kill, _)) => continue,
            Some((Order::Run(_), _)) => return Err(Failure::new("preparing a sandbox", Errno::PROTO)),
        };
        let mut life = || init::live(&birth, &filter, socket, order, &cgroups, first);
        // SAFETY: this process has one thread.
        let process_1 = unsafe { stack.run(namespaces, &mut life) }.map_err(failed("making namespaces"))?;
        let ended = waitpid(Some(process_1), WaitOptions::empty()).map_err(failed("waiting for process 1"))?;
        if ended.and_then(|(_, status)| status.exit_status()) != Some(init::SERVED) {
            return Ok(());
        }
        first = false;
    }
}

/// The worker is told to stop, and says so by closing the socket when its runs are over; those who tell it may tell the
/// whole group. And children must be waited for, whatever the one who started us thought of them.
fn set_signals() {
    // SAFETY: no handler is installed, so nothing runs at an odd moment.
    unsafe {
        for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
            libc::signal(signal, libc::SIG_IGN);
        }
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
    }
}
