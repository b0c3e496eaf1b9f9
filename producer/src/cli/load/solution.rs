//! Which file of a folder is the solution.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use tribunal_shared::language::{Language, Languages};

use super::{LoadError, extension, extensions, read};

/// `solution.EXT`, or else the only source file there is: a Java file, for one, is named after its class.
pub fn find(folder: &Path, languages: &Languages, chosen: Option<&Language>) -> Result<PathBuf, LoadError> {
    let files = read::files(folder)?;
    let fits = |file: &&PathBuf| match chosen {
        Some(language) => extension(file) == language.extension(),
        None => languages.by_extension(extension(file)).is_some(),
    };
    let named = |file: &&PathBuf| file.file_stem() == Some(OsStr::new("solution"));

    let by_name: Vec<_> = files.iter().filter(named).filter(fits).collect();
    let by_extension: Vec<_> = files.iter().filter(fits).collect();
    // A language that was asked for may have more extensions than the one it is known by.
    let by_wish: Vec<_> = files.iter().filter(named).filter(|_| chosen.is_some()).collect();

    match [by_name, by_extension, by_wish].into_iter().find(|found| !found.is_empty()).as_deref() {
        Some([only]) => Ok((*only).clone()),
        Some(several) => Err(LoadError::SeveralSolutions {
            folder: folder.to_owned(),
            files: several.iter().map(|file| (*file).clone()).collect(),
        }),
        None => Err(LoadError::NoSolution { folder: folder.to_owned(), extensions: extensions(languages) }),
    }
}
