//! Who lives on this host. Each worker has a folder below the workspace root and holds a lock in it for as long as it
//! lives; the kernel lets go of the lock when it dies, however that happens. So a folder whose lock can be taken belongs
//! to a dead worker, and what is left of that worker may be removed.

use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::{SandboxError, workspace};

const LOCK: &str = "lock";
const WORKSPACES: &str = "workspaces";

/// Which sandbox a worker has: what it leaves can only be removed by one of the same.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    Docker,
    Native,
}

impl Kind {
    /// First letter of its workers' names.
    fn letter(self) -> char {
        match self {
            Self::Docker => 'w',
            Self::Native => 'n',
        }
    }
}

/// Our own place. It is removed when dropped; other workers do it for us if we die.
pub struct Tenancy {
    root: PathBuf,
    name: String,
    kind: Kind,
    /// Somebody else is to remove what is ours.
    left: bool,
    _lock: File,
}

/// A dead worker's place, locked by us, so that only one neighbour clears it.
pub struct Abandoned {
    pub name: String,
    path: PathBuf,
    _lock: File,
}

impl Tenancy {
    pub fn start(root: &Path, kind: Kind) -> Result<Self, SandboxError> {
        let failed = |doing: &str, path: &Path, error: std::io::Error| SandboxError::Unfit {
            problem: format!("cannot {doing} {}: {error}", path.display()),
            remedy: "Set sandbox.workspace_root to a folder that this worker may write to".into(),
        };
        // 0711: guests' files are open to all, so nobody else may list or reach into a worker's folder (0700).
        let folder = |path: &Path, mode| DirBuilder::new().mode(mode).recursive(true).create(path);
        folder(root, 0o711).map_err(|error| failed("make", root, error))?;
        check_owner(root)?;
        let name = format!("{}{}", kind.letter(), &uuid::Uuid::new_v4().simple().to_string()[..12]);
        let place = root.join(&name);
        folder(&place, 0o700).map_err(|error| failed("make", &place, error))?;
        let lock = lock_in(&place).map_err(|error| failed("lock", &place, error))?;
        folder(&place.join(WORKSPACES), 0o700).map_err(|error| failed("make", &place, error))?;
        Ok(Self { root: root.to_owned(), name, kind, left: false, _lock: lock })
    }

    /// Unique on this host, of lower-case letters and digits.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn workspace_path(&self) -> PathBuf {
        self.root.join(&self.name).join(WORKSPACES).join(uuid::Uuid::new_v4().simple().to_string())
    }

    /// A file of ours that guests may see.
    pub fn install(&self, name: &str, content: &[u8]) -> Result<PathBuf, SandboxError> {
        use std::os::unix::fs::PermissionsExt;
        let path = self.root.join(&self.name).join(name);
        let written =
            fs::write(&path, content).and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o555)));
        written.map_err(|error| SandboxError::failed(format!("writing {}", path.display()), error))?;
        Ok(path)
    }

    /// Leaves the place to whoever finds it abandoned.
    pub fn leave(&mut self) {
        self.left = true;
    }

    /// The places of those of our kind who died. A folder without a lock file is one that is just being made.
    pub fn abandoned(&self) -> Vec<Abandoned> {
        let places = fs::read_dir(&self.root).into_iter().flatten().flatten();
        let others = places.filter(|place| place.file_name() != self.name.as_str());
        others
            .filter_map(|place| {
                let name = place.file_name().into_string().ok()?;
                if !name.starts_with(self.kind.letter()) {
                    return None;
                }
                let lock = File::open(place.path().join(LOCK)).ok()?;
                flock(&lock, FlockOperation::NonBlockingLockExclusive).ok()?;
                Some(Abandoned { name, path: place.path(), _lock: lock })
            })
            .collect()
    }
}

/// What lies in the root tells us what to remove, as whoever we are: nobody else may have put it there.
fn check_owner(root: &Path) -> Result<(), SandboxError> {
    use std::os::unix::fs::MetadataExt;
    let owned = fs::symlink_metadata(root).is_ok_and(|root| {
        root.is_dir() && root.uid() == rustix::process::geteuid().as_raw() && root.mode() & 0o022 == 0
    });
    match owned {
        true => Ok(()),
        false => Err(SandboxError::Unfit {
            problem: format!("{} is not this user's own folder, or others may write to it", root.display()),
            remedy: "Remove it, or set sandbox.workspace_root to a folder that belongs to the worker alone".into(),
        }),
    }
}

/// The lock gets its name only when it is held: a neighbour never sees a living worker's lock free.
fn lock_in(place: &Path) -> std::io::Result<File> {
    let unnamed = place.join("lock.new");
    let lock = File::create(&unnamed)?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
    fs::rename(unnamed, place.join(LOCK))?;
    Ok(lock)
}

impl Abandoned {
    /// Removes the place; everything else of its worker must be gone by now.
    pub fn remove(self) -> std::io::Result<()> {
        for workspace in fs::read_dir(self.path.join(WORKSPACES)).into_iter().flatten().flatten() {
            workspace::remove(&workspace.path())?;
        }
        remove_place(&self.path)
    }
}

impl Drop for Tenancy {
    fn drop(&mut self) {
        if self.left {
            return;
        }
        let path = self.root.join(&self.name);
        if let Err(error) = remove_place(&path) {
            tracing::warn!(path = %path.display(), %error, "the worker's folder could not be removed");
        }
    }
}

/// What is in a place is ours alone by now: guests wrote only into workspaces, and those are gone.
fn remove_place(path: &Path) -> std::io::Result<()> {
    fs::remove_dir_all(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_living_are_left_alone_and_the_dead_are_found() {
        let root = tempfile::tempdir().unwrap();
        let (first, second) =
            (Tenancy::start(root.path(), Kind::Native).unwrap(), Tenancy::start(root.path(), Kind::Native).unwrap());
        assert!(first.abandoned().is_empty());

        // A process that dies runs no destructor; only its lock goes.
        let dead_name = second.name().to_owned();
        let workspace = second.workspace_path();
        fs::create_dir(&workspace).unwrap();
        let Tenancy { _lock: lock, .. } = &second;
        flock(lock, FlockOperation::Unlock).unwrap();

        let mut abandoned = first.abandoned();
        assert_eq!(abandoned.len(), 1);
        assert_eq!(abandoned[0].name, dead_name);
        assert!(first.abandoned().is_empty(), "one neighbour clears it, not two");
        abandoned.remove(0).remove().unwrap();
        assert!(!workspace.exists());
        assert!(!root.path().join(&dead_name).exists());
        std::mem::forget(second);
    }

    #[test]
    fn a_place_that_is_left_is_found_abandoned() {
        let root = tempfile::tempdir().unwrap();
        let first = Tenancy::start(root.path(), Kind::Native).unwrap();
        let mut second = Tenancy::start(root.path(), Kind::Native).unwrap();
        second.leave();
        drop(second);
        assert_eq!(first.abandoned().len(), 1);
    }

    #[test]
    fn a_worker_that_stops_leaves_nothing() {
        let root = tempfile::tempdir().unwrap();
        let tenancy = Tenancy::start(root.path(), Kind::Native).unwrap();
        tenancy.install("init", b"x").unwrap();
        drop(tenancy);
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_root_that_somebody_else_may_have_filled_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let root = tempfile::tempdir().unwrap();
        let link = root.path().join("link");
        std::os::unix::fs::symlink(root.path(), &link).unwrap();
        assert!(matches!(Tenancy::start(&link, Kind::Native), Err(SandboxError::Unfit { .. })), "a link");
        fs::set_permissions(root.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let error = Tenancy::start(root.path(), Kind::Native).err().unwrap().to_string();
        assert!(error.contains("others may write") && error.contains("workspace_root"), "{error}");
    }

    #[test]
    fn a_root_that_cannot_be_written_is_named_with_a_remedy() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = Tenancy::start(&file.path().join("x"), Kind::Native).err().unwrap().to_string();
        assert!(error.contains(&file.path().display().to_string()) && error.contains("workspace_root"), "{error}");
    }
}
