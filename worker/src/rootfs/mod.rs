//! Root file systems for the native sandbox: a Docker image or a tarball, unpacked once.
//!
//! An imported root is a folder below `sandbox.native.roots`, named after its image ([`folder_for`]), with
//! `root` (the files), `environment` (the image's, as `KEY=VALUE` lines) and `origin` (what it was made from) in it.
//! It comes to be under another name and is renamed when it is whole: there is never half of one.

mod archive;
mod unpack;

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{CWD, FlockOperation, RenameFlags, flock, renameat_with};
use tokio_util::io::{StreamReader, SyncIoBridge};
use tokio_util::sync::CancellationToken;
use tribunal_shared::config::{NativeSettings, Settings};

use crate::sandbox::SandboxError;
use crate::sandbox::docker::export;

pub use unpack::Unpacked;

const ROOT: &str = "root";
const ENVIRONMENT: &str = "environment";
const ORIGIN: &str = "origin";
/// No image's name starts with a dot, so these are never taken for a root.
const UNFINISHED: &str = ".importing-";
pub const STDIN: &str = "-";

#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    #[error("{} exists already, made from {origin}. Use --force to replace it", .folder.display())]
    Exists { folder: PathBuf, origin: String },
    #[error("{what} is no root file system: {problem}")]
    NotARoot { what: String, problem: String },
    #[error("{what}: {problem}")]
    Refused { what: String, problem: String },
    #[error("cannot read {what}: {source}")]
    Unreadable { what: String, source: io::Error },
    #[error("cannot write {}: {source}", .path.display())]
    NotWritten { path: PathBuf, source: io::Error },
    #[error("interrupted; nothing was imported")]
    Interrupted,
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
}

/// Where a root comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    Image(String),
    /// A file, or `-` for stdin.
    Tarball(PathBuf),
}

/// How far an import is, and the wish to end it.
#[derive(Default)]
pub struct Watch {
    pub bytes: AtomicU64,
    pub stop: CancellationToken,
}

/// Where the root of an image is, or would be.
pub fn folder_for(roots: &Path, image: &str) -> PathBuf {
    let plain = |(index, c): (usize, char)| match c {
        // A leading dot would make `..`, or hide the folder.
        '.' if index == 0 => '_',
        'A'..='Z' | 'a'..='z' | '0'..='9' | '.' | '_' | '-' => c,
        _ => '_',
    };
    roots.join(image.chars().enumerate().map(plain).collect::<String>())
}

/// What programs of an image run on.
pub struct Found {
    pub root: PathBuf,
    pub environment: Vec<(String, String)>,
}

/// The root of an image, if it was imported.
pub fn find(roots: &Path, image: &str) -> Option<Found> {
    let folder = folder_for(roots, image);
    let environment = fs::read_to_string(folder.join(ENVIRONMENT)).ok()?;
    let pair = |line: &str| line.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    Some(Found { root: folder.join(ROOT), environment: environment.lines().filter_map(pair).collect() })
}

/// Unpacks the source into the folder of the image that it is, or stands for. Returns that folder.
pub async fn import(
    source: &Source,
    image: &str,
    force: bool,
    settings: &Settings,
    watch: &Arc<Watch>,
) -> Result<(PathBuf, Unpacked), ImportError> {
    let roots = &settings.sandbox.native.roots;
    let folder = folder_for(roots, image);
    if !force && folder.exists() {
        return Err(exists(folder));
    }
    let unfinished = Unfinished::create(roots)?;
    let unpacked = match source {
        Source::Tarball(path) => {
            let (path, root, watch) = (path.clone(), unfinished.root(), Arc::clone(watch));
            blocking(move || from_tarball(&path, &root, &watch)).await
        }
        Source::Image(image) => from_image(image, settings, &unfinished, watch).await,
    };
    // Whatever it was that failed when it was stopped.
    let unpacked =
        unpacked.map_err(|error| if watch.stop.is_cancelled() { ImportError::Interrupted } else { error })?;
    let origin = match source {
        Source::Image(image) => image.clone(),
        Source::Tarball(path) => path.display().to_string(),
    };
    unfinished.note(ORIGIN, &origin)?;
    unfinished.finish(&folder, force)?;
    Ok((folder, unpacked))
}

fn exists(folder: PathBuf) -> ImportError {
    let origin = origin(&folder).unwrap_or_else(|| "something else".into());
    ImportError::Exists { folder, origin }
}

fn from_tarball(path: &Path, root: &Path, watch: &Watch) -> Result<Unpacked, ImportError> {
    let what = shown(path);
    let unreadable = |source| ImportError::Unreadable { what: what.clone(), source };
    let bytes: Box<dyn Read> = if path.as_os_str() == STDIN {
        Box::new(io::stdin().lock())
    } else {
        Box::new(File::open(path).map_err(unreadable)?)
    };
    let tar = archive::decompressed(Watched { bytes, watch }, &what)?;
    unpack::unpack(tar, root, &what)
}

pub fn shown(path: &Path) -> String {
    if path.as_os_str() == STDIN { "stdin".into() } else { path.display().to_string() }
}

async fn from_image(
    image: &str,
    settings: &Settings,
    unfinished: &Unfinished,
    watch: &Arc<Watch>,
) -> Result<Unpacked, ImportError> {
    let fetched = tokio::select! {
        fetched = export::fetch(image, &settings.sandbox.docker) => fetched?,
        () = watch.stop.cancelled() => return Err(ImportError::Interrupted),
    };
    let export = fetched.export().await?;
    let tar = SyncIoBridge::new(StreamReader::new(Box::pin(export.stream())));
    let (what, root, watch) = (image.to_owned(), unfinished.root(), Arc::clone(watch));
    let unpacked = blocking(move || unpack::unpack(Watched { bytes: tar, watch: &watch }, &root, &what)).await;
    let environment: String = export.environment().iter().map(|variable| format!("{variable}\n")).collect();
    let removed = export.remove().await;
    // What went wrong first is what counts.
    let unpacked = unpacked?;
    removed?;
    unfinished.note(ENVIRONMENT, &environment)?;
    Ok(unpacked)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ImportError> + Send + 'static,
) -> Result<T, ImportError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(panic) => std::panic::resume_unwind(panic.into_panic()),
    }
}

/// Counts what is read, and stops reading when told to.
struct Watched<'a, R> {
    bytes: R,
    watch: &'a Watch,
}

impl<R: Read> Read for Watched<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.watch.stop.is_cancelled() {
            // Not `Interrupted`, which would be tried again.
            return Err(io::Error::other("stopped"));
        }
        let count = self.bytes.read(buffer)?;
        self.watch.bytes.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

/// A root that is not whole yet, locked for as long as somebody works on it. It is removed when dropped; the next import
/// does it for us if we die.
struct Unfinished {
    folder: PathBuf,
    _lock: File,
}

impl Unfinished {
    fn create(roots: &Path) -> Result<Self, ImportError> {
        let failed = |path: &Path, source| ImportError::NotWritten { path: path.to_owned(), source };
        let make = |path: &Path| DirBuilder::new().mode(0o755).recursive(true).create(path);
        make(roots).map_err(|error| failed(roots, error))?;
        remove_abandoned(roots);
        let folder = roots.join(format!("{UNFINISHED}{}", uuid::Uuid::new_v4().simple()));
        make(&folder).map_err(|error| failed(&folder, error))?;
        let lock = File::open(&folder).map_err(|error| failed(&folder, error))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|error| failed(&folder, error.into()))?;
        let unfinished = Self { folder, _lock: lock };
        make(&unfinished.root()).map_err(|error| failed(&unfinished.root(), error))?;
        unfinished.note(ENVIRONMENT, "")?;
        Ok(unfinished)
    }

    fn root(&self) -> PathBuf {
        self.folder.join(ROOT)
    }

    fn note(&self, name: &str, text: &str) -> Result<(), ImportError> {
        let path = self.folder.join(name);
        fs::write(&path, text).map_err(|source| ImportError::NotWritten { path, source })
    }

    /// Gives it its name. What had that name before is then here in its place, and removed.
    fn finish(self, folder: &Path, force: bool) -> Result<(), ImportError> {
        let exchange = force && folder.exists();
        let flags = if exchange { RenameFlags::EXCHANGE } else { RenameFlags::NOREPLACE };
        match renameat_with(CWD, &self.folder, CWD, folder, flags) {
            Ok(()) => Ok(()),
            // Somebody else was faster.
            Err(rustix::io::Errno::EXIST) => Err(exists(folder.to_owned())),
            Err(error) => Err(ImportError::NotWritten { path: folder.to_owned(), source: error.into() }),
        }
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // Gone already if it was finished and replaced nothing.
        if let Err(error) = fs::remove_dir_all(&self.folder)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(path = %self.folder.display(), %error, "an unfinished root could not be removed");
        }
    }
}

/// What imports left that were killed.
fn remove_abandoned(roots: &Path) {
    for entry in fs::read_dir(roots).into_iter().flatten().flatten() {
        let unfinished = entry.file_name().to_string_lossy().starts_with(UNFINISHED);
        if unfinished
            && let Ok(lock) = File::open(entry.path())
            && flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok()
            && let Err(error) = fs::remove_dir_all(entry.path())
        {
            tracing::warn!(path = %entry.path().display(), %error, "an unfinished root could not be removed");
        }
    }
}

/// A root that was imported.
#[derive(Debug, PartialEq, Eq)]
pub struct Imported {
    pub name: String,
    pub origin: String,
    pub folder: PathBuf,
}

/// The roots that there are, in order of their names.
pub fn list(settings: &NativeSettings) -> Result<Vec<Imported>, ImportError> {
    let entries = match fs::read_dir(&settings.roots) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(ImportError::Unreadable { what: settings.roots.display().to_string(), source }),
    };
    let mut roots: Vec<_> = entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok().filter(|name| !name.starts_with('.'))?;
            let folder = entry.path();
            Some(Imported { name, origin: origin(&folder)?, folder })
        })
        .collect();
    roots.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(roots)
}

fn origin(folder: &Path) -> Option<String> {
    fs::read_to_string(folder.join(ORIGIN)).ok()
}

#[cfg(test)]
mod tests;
