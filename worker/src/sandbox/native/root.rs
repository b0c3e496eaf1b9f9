//! The file system that programs see: assembled once for each zygote, read-only, with nothing of the host in it but what
//! toolchains need.
//!
//! | | `host` | a folder |
//! |---|---|---|
//! | `/usr` | the host's, through an overlay | the folder's, |
//! | `/bin`, `/lib`… | links into `/usr`, or overlays as well | all through one overlay, |
//! | `/etc` | copies of a few files | with our mount points on top |
//! | `/dev` | five devices of our own | the same |

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{self, AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::message::{Failure, RootFolder, failed};
use super::{Defence, mount};
use crate::sandbox::copy::{self, Budget};

/// Where every run gets something of its own mounted.
const MOUNT_POINTS: [&str; 6] = ["proc", "dev", "tmp", "workspace", "usr", "etc"];
/// What of the host's top level programs are shown.
const SHOWN: [&str; 7] = ["bin", "sbin", "lib", "lib32", "lib64", "libx32", "libexec"];
/// What toolchains need of `/etc`: where libraries and programs are, and the settings that some keep there.
const NEEDED: [&str; 6] = ["alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "nsswitch.conf"];
const NEEDED_PREFIXES: [&str; 3] = ["java", "python", "ruby"];
/// In place of the host's, which are not everybody's business.
const WRITTEN: [(&str, &str); 3] = [
    ("passwd", "root:x:0:0:root:/:/bin/sh\nsandbox:x:1000:1000:sandbox:/tmp:/bin/sh\n"),
    ("group", "root:x:0:\nsandbox:x:1000:\n"),
    ("hosts", "127.0.0.1 localhost\n"),
];
/// Where the root is assembled: a folder that is surely there, of which nothing is needed.
const GROUND: &str = "/sys";
/// Name and minor number, all of major number 1.
const DEVICES: [(&str, u32); 5] = [("null", 3), ("zero", 5), ("full", 7), ("random", 8), ("urandom", 9)];
const LINKS: [(&str, &str); 4] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
];

/// Assembles the root and makes it the one and only of this process's mount namespace.
pub fn enter(root: &RootFolder, without: &[Defence]) -> Result<(), Failure> {
    let own_identities = !without.contains(&Defence::OwnInodes);
    mount::keep_private().map_err(failed("cutting off the mounts of the host"))?;
    let points = mount::tmpfs(0, 0, "755").map_err(failed("making a tmpfs"))?;
    for name in MOUNT_POINTS {
        fs::mkdirat(&points, name, Mode::from_raw_mode(0o755)).map_err(failed("making mount points"))?;
    }
    // Before Linux 6.15 an overlay can only be made of what is mounted somewhere.
    mount::attach(points.as_fd(), CWD, GROUND).map_err(failed("mounting a tmpfs"))?;
    let (top, beneath) = match root {
        RootFolder::Host => host(points, own_identities)?,
        RootFolder::Folder(path) => {
            let folder = open_folder(CWD, path).map_err(failed("opening the folder of the root"))?;
            let top = mount::overlay(&[points.as_fd(), folder.as_fd()]).map_err(failed("mounting an overlay"))?;
            mount::attach(top.as_fd(), CWD, GROUND).map_err(failed("mounting the root"))?;
            (top, Vec::new())
        }
    };
    let devices = devices().map_err(failed("making devices"))?;

    for (name, overlay) in &beneath {
        mount::attach(overlay.as_fd(), top.as_fd(), name).map_err(failed("mounting a part of the root"))?;
    }
    if !without.contains(&Defence::ReadOnlyRoot) {
        mount::restrict(top.as_fd(), mount::INERT | mount::READ_ONLY).map_err(failed("making the root read-only"))?;
    }
    mount::attach(devices.as_fd(), top.as_fd(), "dev").map_err(failed("mounting /dev"))?;

    rustix::process::fchdir(&top).map_err(failed("entering the root"))?;
    rustix::process::pivot_root(".", ".").map_err(failed("changing the root"))?;
    // The old one lies on top of the new one now; beneath it is nothing else.
    rustix::mount::unmount(".", rustix::mount::UnmountFlags::DETACH).map_err(failed("letting go of the old root"))?;
    rustix::process::chdir("/").map_err(failed("entering the root"))
}

type Assembled = (OwnedFd, Vec<(String, OwnedFd)>);

/// A top level of our own, and what is to be mounted beneath it.
fn host(top: OwnedFd, own_identities: bool) -> Result<Assembled, Failure> {
    let folder = |name: &str| fs::mkdirat(&top, name, Mode::from_raw_mode(0o755));
    folder(".nothing").map_err(failed("making mount points"))?;
    let nothing = open_folder(&top, ".nothing").map_err(failed("making mount points"))?;
    let seen_through = |name: &str| {
        let path = format!("/{name}");
        let host = open_folder(CWD, &path)?;
        if own_identities { mount::overlay(&[host.as_fd(), nothing.as_fd()]) } else { mount::bind(host.as_fd()) }
    };

    let mut beneath = vec![("usr".to_owned(), seen_through("usr").map_err(failed("mounting an overlay of /usr"))?)];
    for name in SHOWN {
        match fs::readlinkat(CWD, format!("/{name}"), Vec::new()) {
            Ok(target) => fs::symlinkat(target, &top, name).map_err(failed("linking into /usr"))?,
            Err(Errno::INVAL) => {
                folder(name).map_err(failed("making mount points"))?;
                beneath.push((name.to_owned(), seen_through(name).map_err(failed("mounting an overlay"))?));
            }
            Err(_) => {}
        }
    }
    etc(&top).map_err(failed("filling /etc"))?;
    Ok((top, beneath))
}

fn etc(top: &OwnedFd) -> Result<(), Errno> {
    let (from, into) = (open_folder(CWD, "/etc")?, open_folder(top, "etc")?);
    let mut budget = Budget { bytes: 16 << 20, entries: 10_000, only_public: true };
    for entry in Dir::read_from(&from)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().to_str() else { continue };
        let needed = NEEDED.contains(&name) || NEEDED_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
        if needed {
            copy::entry(from.as_fd(), entry.file_name(), into.as_fd(), &mut budget).map_err(copy::Stopped::errno)?;
        }
    }
    for (name, content) in WRITTEN {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = fs::openat(&into, name, flags, Mode::from_raw_mode(0o644))?;
        rustix::io::write(&file, content.as_bytes())?;
    }
    Ok(())
}

/// The nodes are our own: a lock on the host's would be seen by everybody.
fn devices() -> Result<OwnedFd, Errno> {
    let devices = mount::tmpfs(0, 0, "755")?;
    for (name, minor) in DEVICES {
        let anyone = Mode::from_raw_mode(0o666);
        fs::mknodat(&devices, name, FileType::CharacterDevice, anyone, fs::makedev(1, minor))?;
        // Not by mknod, whose mode the umask cuts.
        fs::chmodat(&devices, name, anyone, AtFlags::empty())?;
    }
    for (name, target) in LINKS {
        fs::symlinkat(target, &devices, name)?;
    }
    fs::mkdirat(&devices, "shm", Mode::from_raw_mode(0o755))?;
    mount::restrict(devices.as_fd(), mount::READ_ONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NOEXEC)?;
    Ok(devices)
}

fn open_folder(at: impl AsFd, path: impl rustix::path::Arg) -> Result<OwnedFd, Errno> {
    fs::openat(at, path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}
