//! Reading files of which nobody knows the size.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use super::{LoadError, STDIN};

pub fn text(path: &Path, limit: usize) -> Result<String, LoadError> {
    String::from_utf8(bytes(path, limit)?)
        .map_err(|error| LoadError::NotText { path: path.to_owned(), offset: error.utf8_error().valid_up_to() })
}

pub fn bytes(path: &Path, limit: usize) -> Result<Vec<u8>, LoadError> {
    let unreadable = |source| LoadError::Unreadable { path: path.to_owned(), source };
    up_to(File::open(path).map_err(unreadable)?, path, limit)
}

pub fn stdin(limit: usize) -> Result<Vec<u8>, LoadError> {
    up_to(io::stdin().lock(), Path::new(STDIN), limit)
}

/// What is longer than a request may be is not read to its end: it may have none.
fn up_to(source: impl Read, path: &Path, limit: usize) -> Result<Vec<u8>, LoadError> {
    let mut bytes = Vec::new();
    let read = source.take(limit as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|source| LoadError::Unreadable { path: path.to_owned(), source })?;
    if bytes.len() > limit {
        return Err(LoadError::TooLong { path: path.to_owned(), limit });
    }
    Ok(bytes)
}

/// The regular files of a folder, in order of their names.
pub fn files(folder: &Path) -> Result<Vec<std::path::PathBuf>, LoadError> {
    let unreadable = |source| LoadError::Unreadable { path: folder.to_owned(), source };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
