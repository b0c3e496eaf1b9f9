//! From an archive to a folder, and to nothing outside of it, whatever the archive holds.
//!
//! Every path is resolved by the kernel as if the folder were `/` (`RESOLVE_IN_ROOT`): links are followed as they will be
//! in the sandbox, and lead nowhere else. Nobody else may work in the folder meanwhile.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, ResolveFlags, Timespec, Timestamps, UTIME_OMIT};
use rustix::io::Errno;
use tar::{Archive, Entry, EntryType};

use super::ImportError;

/// What came of an archive.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Unpacked {
    pub entries: u64,
    /// Devices, FIFOs and the like, which no program needs from its root: it gets a `/dev` of its own.
    pub left_out: u64,
}

/// `what` names the archive in errors.
pub fn unpack(tar: impl Read, root: &Path, what: &str) -> Result<Unpacked, ImportError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let handle = fs::open(root, flags, Mode::empty())
        .map_err(|error| ImportError::NotWritten { path: root.to_owned(), source: error.into() })?;
    let mut unpacking = Unpacking { root: Folder(handle), folders: Vec::new(), unpacked: Unpacked::default() };
    let unreadable = |source| ImportError::Unreadable { what: what.to_owned(), source };

    let mut archive = Archive::new(tar);
    for entry in archive.entries().map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let path = PathBuf::from(std::ffi::OsStr::from_bytes(&entry.path_bytes()));
        unpacking.add(entry, &path).map_err(|failure| match failure {
            Failure::Read(source) => unreadable(source),
            Failure::Write(error) => ImportError::NotWritten { path: root.join(relative(&path)), source: error.into() },
            Failure::Refused(problem) => {
                ImportError::Refused { what: format!("{what}: {}", path.display()), problem: problem.into() }
            }
        })?;
    }
    unpacking.finish().map_err(|error| ImportError::NotWritten { path: root.to_owned(), source: error.into() })?;
    check_root(root, what)?;
    Ok(unpacking.unpacked)
}

/// A root has programs in it; an archive without any is something else.
fn check_root(root: &Path, what: &str) -> Result<(), ImportError> {
    let has = |name: &str| root.join(name).symlink_metadata().is_ok();
    if has("usr") || has("bin") {
        return Ok(());
    }
    let problem = if has("manifest.json") || has("oci-layout") {
        "it is an image with its layers, as `docker save` writes it. Give the image's name instead, or what \
         `docker export` writes"
    } else {
        "it has neither usr nor bin at its top"
    };
    Err(ImportError::NotARoot { what: what.to_owned(), problem: problem.into() })
}

enum Failure {
    Read(io::Error),
    Write(Errno),
    Refused(&'static str),
}

impl From<Errno> for Failure {
    fn from(error: Errno) -> Self {
        Self::Write(error)
    }
}

struct Unpacking {
    root: Folder,
    /// Their modes and times come last: while they are filled they must be open to us.
    folders: Vec<(PathBuf, Mode, Timestamps)>,
    unpacked: Unpacked,
}

impl Unpacking {
    fn add(&mut self, mut entry: Entry<'_, impl Read>, path: &Path) -> Result<(), Failure> {
        if path.components().any(|part| part == Component::ParentDir) {
            return Err(Failure::Refused("a name with .. in it"));
        }
        let path = relative(path);
        let Some(name) = path.file_name() else {
            // The root itself, which is ours to make.
            return Ok(());
        };
        let kind = entry.header().entry_type();
        let link = match kind {
            EntryType::Symlink | EntryType::Link => {
                let link = entry.link_name_bytes().ok_or(Failure::Refused("a link to nothing"))?;
                PathBuf::from(std::ffi::OsStr::from_bytes(&link))
            }
            _ => PathBuf::new(),
        };
        let parent = self.root.make_folders(path.parent().unwrap_or(Path::new("")))?;
        match kind {
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let file = parent
                    .replace(name.as_ref(), |name| fs::openat(&parent.0, name, flags, Mode::from_raw_mode(0o600)))?;
                let mut file = File::from(file);
                copy(&mut entry, &mut file)?;
                // No setuid, no setgid: nothing on this machine shall gain anything from what an image brought.
                fs::fchmod(&file, mode(&entry, 0o777))?;
                fs::futimens(&file, &times(&entry))?;
            }
            EntryType::Directory => {
                parent.make_folder(name.as_ref())?;
                self.folders.push((path.to_owned(), mode(&entry, 0o1777), times(&entry)));
            }
            EntryType::Symlink => parent.replace(name.as_ref(), |name| fs::symlinkat(&link, &parent.0, name))?,
            EntryType::Link => {
                let target = relative(&link);
                let (Some(target_name), Some(folder)) = (target.file_name(), target.parent()) else {
                    return Err(Failure::Refused("a hard link to a folder"));
                };
                let folder = self.root.open(folder)?;
                // To itself, it would be removed before it is linked.
                if target != path {
                    parent.replace(name.as_ref(), |name| {
                        // Without AT_SYMLINK_FOLLOW: a link to a symbolic link is another symbolic link.
                        fs::linkat(&folder.0, target_name, &parent.0, name, AtFlags::empty())
                    })?;
                }
            }
            _ => {
                self.unpacked.left_out += 1;
                return Ok(());
            }
        }
        self.unpacked.entries += 1;
        Ok(())
    }

    fn finish(&self) -> Result<(), Errno> {
        for (path, mode, times) in &self.folders {
            // Something else may have taken its place since.
            let Ok(folder) = self.root.open(path) else { continue };
            fs::fchmod(&folder.0, *mode)?;
            fs::futimens(&folder.0, times)?;
        }
        fs::fchmod(&self.root.0, Mode::from_raw_mode(0o755))
    }
}

struct Folder(OwnedFd);

impl Folder {
    /// A folder below this one, as a program would find it for which this one is `/`.
    fn open(&self, path: &Path) -> Result<Self, Errno> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        fs::openat2(&self.0, path, flags, Mode::empty(), resolve).map(Self)
    }

    /// The same, made where it is missing.
    fn make_folders(&self, path: &Path) -> Result<Self, Errno> {
        match self.open(path) {
            Err(Errno::NOENT) => {}
            found => return found,
        }
        let (Some(name), Some(parent)) = (path.file_name(), path.parent()) else { return Err(Errno::NOENT) };
        let parent = self.make_folders(parent)?;
        fs::mkdirat(&parent.0, name, Mode::from_raw_mode(0o755))?;
        self.open(path)
    }

    fn make_folder(&self, name: &Path) -> Result<(), Errno> {
        let make = |name: &Path| fs::mkdirat(&self.0, name, Mode::from_raw_mode(0o755));
        match make(name) {
            Err(Errno::EXIST) => {
                let stat = fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)?;
                match FileType::from_raw_mode(stat.st_mode) {
                    FileType::Directory => Ok(()),
                    _ => self.replace(name, make),
                }
            }
            made => made,
        }
    }

    /// Makes an entry, in place of what has its name: the last of several wins.
    fn replace<T>(&self, name: &Path, make: impl Fn(&Path) -> Result<T, Errno>) -> Result<T, Errno> {
        match make(name) {
            Err(Errno::EXIST) => {
                fs::unlinkat(&self.0, name, AtFlags::empty())?;
                make(name)
            }
            made => made,
        }
    }
}

fn copy(entry: &mut impl Read, file: &mut impl io::Write) -> Result<(), Failure> {
    let mut buffer = vec![0; 128 * 1024];
    loop {
        let count = match entry.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(Failure::Read(error)),
        };
        let written = file.write_all(&buffer[..count]);
        written.map_err(|error| Failure::Write(Errno::from_io_error(&error).unwrap_or(Errno::IO)))?;
    }
}

fn relative(path: &Path) -> PathBuf {
    path.components().filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir)).collect()
}

fn mode(entry: &Entry<'_, impl Read>, kept: u32) -> Mode {
    Mode::from_raw_mode(entry.header().mode().unwrap_or(0o755) & kept)
}

/// Of the last change only. They matter: Python, for one, compares them with those that it has noted.
fn times(entry: &Entry<'_, impl Read>) -> Timestamps {
    let seconds = entry.header().mtime().ok().and_then(|seconds| i64::try_from(seconds).ok()).unwrap_or_default();
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: seconds, tv_nsec: 0 },
    }
}
