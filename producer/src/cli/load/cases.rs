//! Tests from a folder: `NAME.in` with `NAME.out` or `NAME.ans`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tribunal_shared::request::TestCase;

use super::{LoadError, extension, natural, read};

#[derive(Default)]
struct Pair {
    input: Option<PathBuf>,
    expected: Option<PathBuf>,
}

pub fn find(folder: &Path, limit: usize) -> Result<Vec<TestCase>, LoadError> {
    if !folder.exists() {
        return Err(LoadError::NoTestsFolder { folder: folder.to_owned() });
    }
    let mut pairs: BTreeMap<String, Pair> = BTreeMap::new();
    for path in read::files(folder)? {
        let kind = extension(&path);
        if !["in", "out", "ans"].contains(&kind) {
            continue;
        }
        let Some(name) = path.file_stem().and_then(|stem| stem.to_str()) else {
            return Err(LoadError::NameNotText { path });
        };
        let pair = pairs.entry(name.to_owned()).or_default();
        let place = if kind == "in" { &mut pair.input } else { &mut pair.expected };
        match place {
            Some(other) => return Err(LoadError::TwoExpectedOutputs { one: other.clone(), other: path }),
            None => *place = Some(path),
        }
    }
    if pairs.is_empty() {
        return Err(LoadError::NoTests { folder: folder.to_owned() });
    }

    let mut pairs: Vec<_> = pairs.into_iter().collect();
    pairs.sort_by(|(one, _), (other, _)| natural::compare(one, other));
    let mut left = limit;
    pairs.into_iter().map(|(name, pair)| read_pair(name, pair, limit, &mut left)).collect()
}

/// `left` is what the tests that are still to come may have together.
fn read_pair(name: String, pair: Pair, limit: usize, left: &mut usize) -> Result<TestCase, LoadError> {
    let (input, expected) = match (pair.input, pair.expected) {
        (Some(input), Some(expected)) => (input, expected),
        (Some(path), None) => return Err(LoadError::NoExpectedOutput { path, name }),
        (None, Some(path)) => return Err(LoadError::NoInput { path, name }),
        (None, None) => unreachable!("a pair is made for a file"),
    };
    let mut read = |path: &Path| {
        let text = read::text(path, *left).map_err(|error| match error {
            LoadError::TooLong { path, .. } => LoadError::TooLong { path, limit },
            other => other,
        })?;
        *left -= text.len();
        Ok(text)
    };
    Ok(TestCase { id: Some(name), input: read(&input)?, expected_output: read(&expected)?, ..TestCase::default() })
}
