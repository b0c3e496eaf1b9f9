//! Processes of our own making: `clone`, which has what `fork` lacks.

use std::io::{Error, Result};
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
pub unsafe fn fork_into(namespaces: i32, cgroup: Option<BorrowedFd<'_>>) -> Result<Option<Pid>> {
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
        -1 => Err(Error::last_os_error()),
        pid => Ok(Pid::from_raw(pid as i32)),
    }
}

/// Where a process that shares our memory keeps its own variables.
pub struct Stack {
    lowest: *mut libc::c_void,
}

impl Stack {
    const LENGTH: usize = 1 << 20;
    /// Below it, so that an overflow is a fault and not a corruption.
    const GUARD: usize = 64 << 10;

    pub fn new() -> Result<Self> {
        // SAFETY: a new mapping, of which nobody else knows, and its lower end made unusable.
        unsafe {
            let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            let lowest = libc::mmap(std::ptr::null_mut(), Self::LENGTH, access, kind, -1, 0);
            if lowest == libc::MAP_FAILED || libc::mprotect(lowest, Self::GUARD, libc::PROT_NONE) != 0 {
                return Err(Error::last_os_error());
            }
            Ok(Self { lowest })
        }
    }

    /// Runs `body` as a process of its own, in new namespaces, and returns when it has ended: only then do we go on, as
    /// after `vfork`. Our memory is its memory, so that none is copied and what it allocates it must give back.
    ///
    /// # Safety
    ///
    /// The process must have one thread only.
    pub unsafe fn run(&mut self, namespaces: i32, body: &mut dyn FnMut() -> i32) -> Result<Pid> {
        extern "C" fn begin(body: *mut libc::c_void) -> i32 {
            // SAFETY: it is the pointer that is passed below, to what lives until this process has ended.
            unsafe { (*body.cast::<&mut dyn FnMut() -> i32>())() }
        }
        let mut body = body;
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD | namespaces;
        // SAFETY: the stack is ours and in use by nobody, since the one before has ended; it grows down from its upper end.
        // CLONE_VFORK keeps us from touching the shared memory before the child has ended.
        let pid = unsafe { libc::clone(begin, self.lowest.byte_add(Self::LENGTH), flags, (&raw mut body).cast()) };
        Pid::from_raw(pid).filter(|_| pid > 0).ok_or_else(Error::last_os_error)
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, with this length; nobody runs on it now.
        unsafe { libc::munmap(self.lowest, Self::LENGTH) };
    }
}

/// Ends a process that was made here, without what the one before it wanted to be done at its own end.
pub fn leave(code: i32) -> ! {
    // SAFETY: ends the process; nothing of it is left that could be in a bad state.
    unsafe { libc::_exit(code) }
}
