//! A process of our own making: `clone3`, which has what `fork` lacks.

use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::process::Pid;

/// The constant of `libc` is of a type that is too narrow for it.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// Like `fork`, into new namespaces and, if one is given, into a cgroup of version 2 from its first moment.
/// `Ok(None)` is the child.
///
/// # Safety
///
/// The process must have one thread only: any other could hold a lock that nobody will release in the child.
pub unsafe fn fork_into(namespaces: i32, cgroup: Option<BorrowedFd<'_>>) -> std::io::Result<Option<Pid>> {
    // SAFETY: all-zero is a valid value of this plain struct, and means "nothing special" in every field.
    let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
    arguments.flags = namespaces as u64;
    arguments.exit_signal = libc::SIGCHLD as u64;
    if let Some(cgroup) = cgroup {
        arguments.flags |= CLONE_INTO_CGROUP;
        arguments.cgroup = cgroup.as_raw_fd() as u64;
    }
    // SAFETY: the struct outlives the call and its size is the right one. Without a stack and without CLONE_VM the child
    // goes on with a copy of ours, as after fork.
    let pid = unsafe { libc::syscall(libc::SYS_clone3, &arguments, size_of::<libc::clone_args>()) };
    match pid {
        -1 => Err(std::io::Error::last_os_error()),
        pid => Ok(Pid::from_raw(pid as i32)),
    }
}

/// Ends a process that was made here, without what the one before it wanted to be done at its own end.
pub fn leave(code: i32) -> ! {
    // SAFETY: ends the process; nothing of it is left that could be in a bad state.
    unsafe { libc::_exit(code) }
}
