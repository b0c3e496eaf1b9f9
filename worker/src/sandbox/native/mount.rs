//! Mounts that hang nowhere until they are put somewhere: the kernel's newer calls, by descriptor instead of by path, so
//! that nobody can come between the checking of a path and its use.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::CWD;
use rustix::io::{Errno, Result};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, fsconfig_create, fsconfig_set_flag,
    fsconfig_set_string, fsmount, fsopen, move_mount, open_tree,
};

/// What no mount that a guest sees may lack: setuid bits and device nodes mean nothing on it.
pub const INERT: u64 = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
pub const READ_ONLY: u64 = libc::MOUNT_ATTR_RDONLY;

/// A file system in memory, with a bound on its bytes (unless `megabytes` is 0: for what is ours alone) and its entries.
pub fn tmpfs(megabytes: u64, entries: u64, mode: &str) -> Result<OwnedFd> {
    let context = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    if megabytes > 0 {
        fsconfig_set_string(context.as_fd(), "size", format!("{megabytes}m"))?;
        fsconfig_set_string(context.as_fd(), "nr_inodes", entries.to_string())?;
    }
    fsconfig_set_string(context.as_fd(), "mode", mode)?;
    finish(&context, MountAttrFlags::MOUNT_ATTR_NOSUID)
}

/// The folders on top of each other, the first one uppermost, read-only. What is seen through it has identities of its
/// own: locks and watches on its files meet none on the files below.
pub fn overlay(folders: &[BorrowedFd<'_>]) -> Result<OwnedFd> {
    // By descriptor: the kernel takes no more than 256 bytes, and gives a meaning to some characters.
    let paths: Vec<_> = folders.iter().map(|folder| format!("/proc/self/fd/{}", folder.as_raw_fd())).collect();
    let context = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(context.as_fd(), "lowerdir", paths.join(":"))?;
    fsconfig_set_flag(context.as_fd(), "ro")?;
    finish(&context, MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV)
}

fn finish(context: &OwnedFd, attributes: MountAttrFlags) -> Result<OwnedFd> {
    fsconfig_create(context.as_fd())?;
    fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

/// A folder as a mount of its own.
pub fn bind(folder: BorrowedFd<'_>) -> Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    open_tree(folder, "", flags)
}

/// Adds attributes to a mount, and to what is mounted on it.
pub fn restrict(mount: BorrowedFd<'_>, attributes: u64) -> Result<()> {
    change(
        mount,
        "",
        libc::AT_EMPTY_PATH | libc::AT_RECURSIVE,
        libc::mount_attr { attr_set: attributes, attr_clr: 0, propagation: 0, userns_fd: 0 },
    )
}

/// Nothing that is mounted from now on, here or elsewhere, is seen on the other side.
pub fn keep_private() -> Result<()> {
    change(
        CWD,
        "/",
        libc::AT_RECURSIVE,
        libc::mount_attr { attr_set: 0, attr_clr: 0, propagation: libc::MS_PRIVATE, userns_fd: 0 },
    )
}

fn change(mount: BorrowedFd<'_>, path: &str, flags: i32, attributes: libc::mount_attr) -> Result<()> {
    let path = std::ffi::CString::new(path).map_err(|_| Errno::INVAL)?;
    // SAFETY: path and struct outlive the call, and the size is the struct's.
    let changed = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            path.as_ptr(),
            flags,
            &attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    match changed {
        0 => Ok(()),
        _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)),
    }
}

pub fn attach(mount: BorrowedFd<'_>, at: BorrowedFd<'_>, path: &str) -> Result<()> {
    move_mount(mount, "", at, path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
}
