//! Copies a tree that a guest may have made, as what it is: folders, regular files and links that nobody follows. Pipes,
//! sockets and devices are left out; hard links become files of their own; owners, setuid bits and attributes are lost.

use std::ffi::CStr;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{self, AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

/// Deeper than any compiler goes.
const DEEPEST: usize = 32;

/// What may still be copied.
pub struct Budget {
    pub bytes: u64,
    pub entries: usize,
    /// Leave out what not everybody may read: the copy is for everybody.
    pub only_public: bool,
}

#[derive(Debug)]
pub enum Stopped {
    /// The tree has more in it than was allowed.
    TooMuch,
    Failed(Errno),
}

impl Stopped {
    pub fn errno(self) -> Errno {
        match self {
            Self::TooMuch => Errno::FBIG,
            Self::Failed(errno) => errno,
        }
    }
}

impl From<Errno> for Stopped {
    fn from(errno: Errno) -> Self {
        Self::Failed(errno)
    }
}

/// Everything in `from` to `into`, where nothing of the same name may be. Nobody may write to `from` meanwhile.
pub fn tree(from: BorrowedFd<'_>, into: BorrowedFd<'_>, budget: &mut Budget) -> Result<(), Stopped> {
    folder(from, into, budget, 0)
}

/// One entry of `from`, with all that is in it.
pub fn entry(from: BorrowedFd<'_>, name: &CStr, into: BorrowedFd<'_>, budget: &mut Budget) -> Result<(), Stopped> {
    copy(from, name, into, budget, 0)
}

fn folder(from: BorrowedFd<'_>, into: BorrowedFd<'_>, budget: &mut Budget, depth: usize) -> Result<(), Stopped> {
    if depth > DEEPEST {
        return Err(Stopped::TooMuch);
    }
    for found in Dir::read_from(open_folder(from, c".")?)? {
        let found = found?;
        if ![c".", c".."].contains(&found.file_name()) {
            copy(from, found.file_name(), into, budget, depth)?;
        }
    }
    Ok(())
}

fn copy(
    from: BorrowedFd<'_>,
    name: &CStr,
    into: BorrowedFd<'_>,
    budget: &mut Budget,
    depth: usize,
) -> Result<(), Stopped> {
    budget.entries = budget.entries.checked_sub(1).ok_or(Stopped::TooMuch)?;
    let stat = fs::statat(from, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let kind = FileType::from_raw_mode(stat.st_mode);
    let needed = if kind == FileType::Directory { 0o005 } else { 0o004 };
    if budget.only_public && stat.st_mode & needed != needed {
        return Ok(());
    }
    match kind {
        FileType::Directory => {
            fs::mkdirat(into, name, Mode::from_raw_mode(0o755)).map_err(unless_refused)?;
            let (inner, copied) = (open_folder(from, name)?, open_folder(into, name)?);
            folder(inner.as_fd(), copied.as_fd(), budget, depth + 1)
        }
        FileType::Symlink => {
            Ok(fs::symlinkat(fs::readlinkat(from, name, Vec::new())?, into, name).map_err(unless_refused)?)
        }
        FileType::RegularFile => file(from, name, into, budget),
        _ => Ok(()),
    }
}

fn file(from: BorrowedFd<'_>, name: &CStr, into: BorrowedFd<'_>, budget: &mut Budget) -> Result<(), Stopped> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let source = fs::openat(from, name, flags, Mode::empty())?;
    let stat = fs::fstat(&source)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Ok(());
    }
    // Its length and not its blocks: the holes of the original are filled in the copy.
    budget.bytes = budget.bytes.checked_sub(stat.st_size as u64).ok_or(Stopped::TooMuch)?;
    let mode = if stat.st_mode & 0o111 == 0 { 0o444 } else { 0o555 };
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let copied = fs::openat(into, name, flags, Mode::from_raw_mode(0o600)).map_err(unless_refused)?;
    // Not by open, whose mode the umask cuts.
    fs::fchmod(&copied, Mode::from_raw_mode(mode))?;
    let mut source = File::from(source).take(stat.st_size as u64);
    std::io::copy(&mut source, &mut File::from(copied))
        .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    Ok(())
}

/// A name or a link that one file system takes and another does not is the guest's doing, not ours.
fn unless_refused(errno: Errno) -> Stopped {
    match errno {
        Errno::NAMETOOLONG | Errno::ILSEQ | Errno::INVAL => Stopped::TooMuch,
        errno => Stopped::Failed(errno),
    }
}

fn open_folder(at: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    fs::openat(at, name, flags, Mode::empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::Path;

    fn copied(from: &Path, bytes: u64, entries: usize) -> (tempfile::TempDir, Result<(), Stopped>) {
        let into = tempfile::tempdir().unwrap();
        let (source, target) = (File::open(from).unwrap(), File::open(into.path()).unwrap());
        let result = tree(source.as_fd(), target.as_fd(), &mut Budget { bytes, entries, only_public: false });
        (into, result)
    }

    #[test]
    fn files_folders_and_links_are_copied_as_what_they_are_and_the_rest_is_left_out() {
        let from = tempfile::tempdir().unwrap();
        let at = |name: &str| from.path().join(name);
        std::fs::create_dir(at("folder")).unwrap();
        std::fs::write(at("folder/program"), "x").unwrap();
        std::fs::set_permissions(at("folder/program"), std::fs::Permissions::from_mode(0o4700)).unwrap();
        std::fs::hard_link(at("folder/program"), at("same")).unwrap();
        symlink("/etc/shadow", at("link")).unwrap();
        fs::mknodat(fs::CWD, at("fifo"), FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();

        let (into, result) = copied(from.path(), 2, 5);
        result.unwrap();
        let at = |name: &str| into.path().join(name);
        assert_eq!(std::fs::read_link(at("link")).unwrap(), Path::new("/etc/shadow"));
        assert!(!at("fifo").exists());
        for name in ["same", "folder/program"] {
            let metadata = std::fs::metadata(at(name)).unwrap();
            assert_eq!((metadata.permissions().mode() & 0o7777, metadata.len()), (0o555, 1));
            assert_eq!(std::os::unix::fs::MetadataExt::nlink(&metadata), 1);
        }
    }

    #[test]
    fn what_is_not_for_everybody_is_left_out_when_that_is_asked_for() {
        let (from, into) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for (folder, mode) in [("open", 0o755), ("shut", 0o700)] {
            std::fs::create_dir(from.path().join(folder)).unwrap();
            for (name, mode) in [("public", 0o644), ("secret", 0o600)] {
                let file = from.path().join(folder).join(name);
                std::fs::write(&file, "x").unwrap();
                std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            }
            std::fs::set_permissions(from.path().join(folder), std::fs::Permissions::from_mode(mode)).unwrap();
        }
        let (source, target) = (File::open(from.path()).unwrap(), File::open(into.path()).unwrap());
        tree(source.as_fd(), target.as_fd(), &mut Budget { bytes: 9, entries: 9, only_public: true }).unwrap();
        assert!(into.path().join("open/public").exists());
        assert!(!into.path().join("open/secret").exists() && !into.path().join("shut").exists());
    }

    #[test]
    fn more_than_was_allowed_stops_the_copy() {
        let from = tempfile::tempdir().unwrap();
        std::fs::write(from.path().join("file"), "123").unwrap();
        assert!(copied(from.path(), 3, 1).1.is_ok());
        assert!(matches!(copied(from.path(), 2, 1).1, Err(Stopped::TooMuch)));
        assert!(matches!(copied(from.path(), 3, 0).1, Err(Stopped::TooMuch)));
        // Takes no room here, but would in the copy.
        File::create(from.path().join("sparse")).unwrap().set_len(1 << 40).unwrap();
        assert!(matches!(copied(from.path(), 1 << 30, 9).1, Err(Stopped::TooMuch)));
    }

    #[test]
    fn a_tree_that_is_too_deep_is_too_much() {
        let from = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(from.path().join("x/".repeat(DEEPEST + 1))).unwrap();
        assert!(matches!(copied(from.path(), 1, 100).1, Err(Stopped::TooMuch)));
    }
}
