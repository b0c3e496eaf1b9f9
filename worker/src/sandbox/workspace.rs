//! A folder that a guest may write to, and that we must not trust afterwards.
//!
//! Everything in here goes through directory handles that do not follow links, and neither the depth nor the number of
//! what a guest made may cost us our stack, our descriptors or our time.

use std::ffi::CString;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{self, AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::SandboxError;

/// More entries or deeper folders than any compiler makes.
const MOST_ENTRIES: usize = 10_000;
const DEEPEST: usize = 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    ReadOnly,
    ReadWrite,
}

/// Removed when the last clone is dropped: whatever may still write to it holds one.
#[derive(Clone)]
pub struct Workspace(Arc<Folder>);

struct Folder {
    path: PathBuf,
    handle: OwnedFd,
}

/// Whether workspaces can be made and written to: a full disk is no fault of the request that meets it.
pub(super) fn probe(path: PathBuf) -> Result<(), SandboxError> {
    static SOME: [u8; 256 * 1024] = [0; 256 * 1024];
    Workspace::create(path)?.write("probe", &SOME)
}

impl Workspace {
    /// `path` must not exist yet, and its parent must be ours alone: the folder itself is open to every user.
    pub(super) fn create(path: PathBuf) -> Result<Self, SandboxError> {
        let failed = |error: Errno| SandboxError::failed(format!("making the workspace {}", path.display()), error);
        fs::mkdir(&path, Mode::from_raw_mode(0o700)).map_err(failed)?;
        let handle = open_folder(CWD, &path).map_err(failed)?;
        // Not by mkdir, whose mode the umask cuts.
        fs::fchmod(&handle, Mode::from_raw_mode(0o777)).map_err(failed)?;
        Ok(Self(Arc::new(Folder { path, handle })))
    }

    pub fn path(&self) -> &Path {
        &self.0.path
    }

    pub(super) fn handle(&self) -> std::os::fd::BorrowedFd<'_> {
        std::os::fd::AsFd::as_fd(&self.0.handle)
    }

    /// Removes everything in it. Nothing may run in it.
    pub(super) fn clear(&self) -> Result<(), SandboxError> {
        empty(&self.0.handle).map_err(|error| SandboxError::failed("emptying a workspace", error))
    }

    /// Writes a new file that everybody may read and nobody may change.
    pub fn write(&self, name: &str, content: &[u8]) -> Result<(), SandboxError> {
        self.write_with_mode(name, content, 0o444)
    }

    /// The same for a program that needs no compiling.
    pub fn write_program(&self, name: &str, content: &[u8]) -> Result<(), SandboxError> {
        self.write_with_mode(name, content, 0o555)
    }

    fn write_with_mode(&self, name: &str, content: &[u8], mode: u32) -> Result<(), SandboxError> {
        let failed = |error: std::io::Error| SandboxError::failed(format!("writing {name} to the workspace"), error);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let file = fs::openat2(&self.0.handle, name, flags, Mode::from_raw_mode(0o644), resolve)
            .map_err(|error| failed(error.into()))?;
        fs::fchmod(&file, Mode::from_raw_mode(mode)).map_err(|error| failed(error.into()))?;
        std::fs::File::from(file).write_all(content).map_err(failed)
    }

    /// Whether the guest put more than `limit` bytes, or absurdly many or deep entries, into the workspace.
    pub(super) fn exceeds(&self, limit: u64) -> bool {
        let mut used = Used { bytes: 0, entries: 0, limit };
        match open_folder(&self.0.handle, Path::new(".")) {
            Ok(folder) => used.add_folder(folder, 0).is_err(),
            Err(_) => false,
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let removed = empty(&self.handle).and_then(|()| fs::unlinkat(CWD, &self.path, AtFlags::REMOVEDIR));
        if let Err(error) = removed {
            tracing::error!(path = %self.path.display(), %error, "a workspace could not be removed");
        }
    }
}

/// Removes a workspace that a dead worker left.
pub(super) fn remove(path: &Path) -> std::io::Result<()> {
    let folder = open_folder(CWD, path)?;
    empty(&folder)?;
    Ok(fs::unlinkat(CWD, path, AtFlags::REMOVEDIR)?)
}

fn open_folder(at: impl std::os::fd::AsFd, path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    fs::openat(at, path, flags, Mode::empty())
}

struct Used {
    bytes: u64,
    entries: usize,
    limit: u64,
}

struct TooMuch;

impl Used {
    fn add_folder(&mut self, folder: OwnedFd, depth: usize) -> Result<(), TooMuch> {
        if depth > DEEPEST {
            return Err(TooMuch);
        }
        // What vanishes or cannot be read while it is looked at does not count.
        let Ok(entries) = Dir::read_from(&folder) else { return Ok(()) };
        for entry in entries.flatten().filter(|entry| !is_dot(entry.file_name().to_bytes())) {
            self.entries += 1;
            let Ok(stat) = fs::statat(&folder, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) else { continue };
            // Blocks, not length: a sparse file takes no room, a small one takes a block.
            self.bytes += stat.st_blocks as u64 * 512;
            if self.entries > MOST_ENTRIES || self.bytes > self.limit {
                return Err(TooMuch);
            }
            if FileType::from_raw_mode(stat.st_mode) == FileType::Directory
                && let Ok(inner) = open_folder(&folder, Path::new(&os(entry.file_name())))
            {
                self.add_folder(inner, depth + 1)?;
            }
        }
        Ok(())
    }
}

/// Empties a folder of any depth with two descriptors and no recursion: folders inside folders are first moved up.
///
/// Nothing may run in the workspace any more.
fn empty(top: &OwnedFd) -> Result<(), Errno> {
    let mut moved = 0u64;
    loop {
        let mut found_any = false;
        for name in names(top)? {
            found_any = true;
            if fs::unlinkat(top, &name, AtFlags::empty()).is_ok() {
                continue;
            }
            let folder = open_folder(top, Path::new(&os(&name)))?;
            // The guest may have shut itself out; that must not stop us.
            fs::fchmod(&folder, Mode::from_raw_mode(0o700))?;
            for inner in names(&folder)? {
                if fs::unlinkat(&folder, &inner, AtFlags::empty()).is_err() {
                    moved = rename_to_free_name(&folder, &inner, top, moved)?;
                }
            }
            fs::unlinkat(top, &name, AtFlags::REMOVEDIR)?;
        }
        if !found_any {
            return Ok(());
        }
    }
}

fn rename_to_free_name(from: &OwnedFd, name: &CString, top: &OwnedFd, mut number: u64) -> Result<u64, Errno> {
    loop {
        number += 1;
        let free = format!(".tribunal-removed-{number}");
        match fs::renameat_with(from, name, top, &free, fs::RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) => {}
            other => return other.map(|()| number),
        }
    }
}

fn names(folder: &OwnedFd) -> Result<Vec<CString>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        if !is_dot(entry.file_name().to_bytes()) {
            names.push(entry.file_name().to_owned());
        }
    }
    Ok(names)
}

fn is_dot(name: &[u8]) -> bool {
    name == b"." || name == b".."
}

fn os(name: &std::ffi::CStr) -> std::ffi::OsString {
    use std::os::unix::ffi::OsStringExt;
    std::ffi::OsString::from_vec(name.to_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn workspace() -> (tempfile::TempDir, Workspace) {
        let root = tempfile::tempdir().unwrap();
        let workspace = Workspace::create(root.path().join("w")).unwrap();
        (root, workspace)
    }

    #[test]
    fn a_source_can_be_read_by_all_and_written_by_none() {
        let (_root, workspace) = workspace();
        workspace.write("solution.py", b"print(1)").unwrap();
        let path = workspace.path().join("solution.py");
        assert_eq!(std::fs::read(&path).unwrap(), b"print(1)");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o444);
    }

    #[test]
    fn writing_follows_no_link_and_leaves_no_folder() {
        let (root, workspace) = workspace();
        let target = root.path().join("target");
        symlink(&target, workspace.path().join("link")).unwrap();
        symlink(root.path(), workspace.path().join("up")).unwrap();
        for name in ["link", "up/file", "../file", "/tmp/file"] {
            assert!(workspace.write(name, b"x").is_err(), "{name}");
        }
        assert!(!target.exists());
        assert!(!root.path().join("file").exists());
    }

    #[test]
    fn removing_follows_no_link() {
        let (root, workspace) = workspace();
        let precious = root.path().join("precious");
        std::fs::create_dir(&precious).unwrap();
        std::fs::write(precious.join("file"), "keep").unwrap();
        symlink(&precious, workspace.path().join("link")).unwrap();
        std::fs::create_dir(workspace.path().join("sub")).unwrap();
        symlink(&precious, workspace.path().join("sub/link")).unwrap();
        let path = workspace.path().to_owned();
        drop(workspace);
        assert!(!path.exists());
        assert_eq!(std::fs::read_to_string(precious.join("file")).unwrap(), "keep");
    }

    #[test]
    fn a_tree_too_deep_for_any_path_is_measured_and_removed() {
        let (_root, workspace) = workspace();
        let mut at = open_folder(CWD, workspace.path()).unwrap();
        for _ in 0..5_000 {
            fs::mkdirat(&at, "deep", Mode::from_raw_mode(0o700)).unwrap();
            fs::mkdirat(&at, ".tribunal-removed-1", Mode::from_raw_mode(0o000)).unwrap();
            at = open_folder(&at, Path::new("deep")).unwrap();
        }
        assert!(workspace.exceeds(u64::MAX));
        let path = workspace.path().to_owned();
        drop(workspace);
        assert!(!path.exists());
    }

    #[test]
    fn room_is_counted_in_blocks_and_entries() {
        let (_root, workspace) = workspace();
        std::fs::write(workspace.path().join("big"), vec![1; 200_000]).unwrap();
        assert!(workspace.exceeds(100_000));
        assert!(!workspace.exceeds(1_000_000));
        let sparse = std::fs::File::create(workspace.path().join("sparse")).unwrap();
        sparse.set_len(1 << 40).unwrap();
        assert!(!workspace.exceeds(1_000_000));
        for number in 0..=MOST_ENTRIES {
            symlink("x", workspace.path().join(number.to_string())).unwrap();
        }
        assert!(workspace.exceeds(u64::MAX));
    }
}
