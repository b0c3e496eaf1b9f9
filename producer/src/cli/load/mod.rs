//! From a path to a request: a JSON file, a folder, or a source file with its tests.

mod cases;
mod natural;
mod read;
mod solution;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tribunal_shared::config::Settings;
use tribunal_shared::language::{Language, Languages};
use tribunal_shared::request::{ExecutionRequest, Malformed};

use super::args::RequestArguments;
use super::escape;

const STDIN: &str = "-";

#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("cannot read {}: {source}", shown(.path))]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("{} is not UTF-8 text (first bad byte at offset {offset})", shown(.path))]
    NotText { path: PathBuf, offset: usize },
    #[error("with {}, the request is longer than the {limit} bytes it may have (limits.max_request_bytes)", shown(.path))]
    TooLong { path: PathBuf, limit: usize },
    #[error("{} is no request: {problem}", shown(.path))]
    Malformed { path: PathBuf, problem: Malformed },
    #[error(
        "{} is neither a request as JSON nor, by its name, a source file: those end in {extensions}. For a source file of \
         another name, say --language NAME and --tests DIR", shown(.path)
    )]
    NeitherRequestNorSource { path: PathBuf, extensions: String },
    #[error("{} is a source file and needs its tests: --tests DIR, with NAME.in and NAME.out in it", shown(.path))]
    NoTestsNamed { path: PathBuf },
    #[error("--tests goes with a source file or a folder; a request as JSON has its tests in it")]
    TestsBesideRequest,
    #[error("the language of {} is not clear from its name: --language NAME (`tribunal languages` lists them)", shown(.path))]
    UnknownExtension { path: PathBuf },
    #[error("--language {:?} is not supported; `tribunal languages` lists what is", .name)]
    UnknownLanguage { name: String },
    #[error("{} has no solution: put solution.EXT there, where EXT is one of {extensions}", shown(.folder))]
    NoSolution { folder: PathBuf, extensions: String },
    #[error("{} has more than one solution ({}): name the file, or --language NAME", shown(.folder), shown_all(.files))]
    SeveralSolutions { folder: PathBuf, files: Vec<PathBuf> },
    #[error("{} has no tests: put NAME.in and NAME.out (or NAME.ans) there", shown(.folder))]
    NoTests { folder: PathBuf },
    #[error("{} does not exist: put NAME.in and NAME.out (or NAME.ans) there", shown(.folder))]
    NoTestsFolder { folder: PathBuf },
    #[error("{} has no expected output: {}.out (or .ans) is missing beside it", shown(.path), escape::line(.name))]
    NoExpectedOutput { path: PathBuf, name: String },
    #[error("{} has no input: {}.in is missing beside it", shown(.path), escape::line(.name))]
    NoInput { path: PathBuf, name: String },
    #[error("{} and {} are both the expected output of one test: remove one", shown(.one), shown(.other))]
    TwoExpectedOutputs { one: PathBuf, other: PathBuf },
    #[error("the name of {} is not UTF-8 text", shown(.path))]
    NameNotText { path: PathBuf },
}

fn shown(path: &Path) -> String {
    if path.as_os_str() == STDIN { "stdin".into() } else { escape::line(&path.to_string_lossy()) }
}

fn shown_all(paths: &[PathBuf]) -> String {
    let names: Vec<_> = paths.iter().map(|path| shown(Path::new(path.file_name().unwrap_or_default()))).collect();
    names.join(", ")
}

/// The request at a path, as flags change it. Whether it is a valid one is not looked at here.
pub fn load(arguments: &RequestArguments, settings: &Settings) -> Result<ExecutionRequest, LoadError> {
    let languages = settings.languages();
    let limit = settings.limits.max_request_bytes;
    let mut request = match shape(arguments, &languages)? {
        Shape::Request(path) => from_json(path, &languages, limit)?,
        Shape::Source { file, language, tests } => {
            let program = from_source(&file, &language, limit)?;
            ExecutionRequest { test_cases: cases::find(&tests, limit)?, ..program }
        }
    };

    if let Some(language) = &arguments.language {
        request.language.clone_from(language);
    }
    request.request_id = arguments.id.clone().or(request.request_id);
    request.priority = arguments.priority.clone().or(request.priority);
    request.timeout_ms = arguments.timeout_ms.or(request.timeout_ms);
    request.total_timeout_ms = arguments.total_timeout_ms.or(request.total_timeout_ms);
    request.memory_limit_mb = arguments.memory_mb.or(request.memory_limit_mb);
    request.cpu_limit = arguments.cpus.or(request.cpu_limit);
    Ok(request)
}

/// The source at a path, as a request without tests.
pub fn program(path: &Path, language: Option<&str>, settings: &Settings) -> Result<ExecutionRequest, LoadError> {
    let languages = settings.languages();
    let chosen = chosen(language, &languages)?;
    let kind = std::fs::metadata(path).map_err(|source| LoadError::Unreadable { path: path.into(), source })?;
    let file = if kind.is_dir() { solution::find(path, &languages, chosen.as_deref())? } else { path.to_owned() };
    let language = language_of(&file, &languages, chosen.as_deref())?;
    from_source(&file, &language, settings.limits.max_request_bytes)
}

/// What a program is to read: a file, or what we read ourselves.
pub fn input(path: &Path, settings: &Settings) -> Result<Vec<u8>, LoadError> {
    let limit = settings.limits.max_request_bytes;
    if path.as_os_str() == STDIN { read::stdin(limit) } else { read::bytes(path, limit) }
}

enum Shape<'a> {
    Request(&'a Path),
    Source { file: PathBuf, language: String, tests: PathBuf },
}

fn shape<'a>(arguments: &'a RequestArguments, languages: &Languages) -> Result<Shape<'a>, LoadError> {
    let path = arguments.path.as_path();
    let chosen = chosen(arguments.language.as_deref(), languages)?;
    if path.as_os_str() == STDIN {
        return if arguments.tests.is_some() { Err(LoadError::TestsBesideRequest) } else { Ok(Shape::Request(path)) };
    }
    let kind = std::fs::metadata(path).map_err(|source| LoadError::Unreadable { path: path.into(), source })?;
    if kind.is_dir() {
        let file = solution::find(path, languages, chosen.as_deref())?;
        let language = language_of(&file, languages, chosen.as_deref())?;
        let tests = arguments.tests.clone().unwrap_or_else(|| path.join("tests"));
        return Ok(Shape::Source { file, language, tests });
    }
    let extension = extension(path);
    match &arguments.tests {
        Some(_) if extension == "json" => Err(LoadError::TestsBesideRequest),
        Some(tests) => {
            let language = language_of(path, languages, chosen.as_deref())?;
            Ok(Shape::Source { file: path.into(), language, tests: tests.clone() })
        }
        None if languages.by_extension(extension).is_some() => Err(LoadError::NoTestsNamed { path: path.into() }),
        // A pipe such as `<(generate-request)` is as good as a file.
        None => Ok(Shape::Request(path)),
    }
}

fn chosen(name: Option<&str>, languages: &Languages) -> Result<Option<Arc<Language>>, LoadError> {
    let known = |name: &str| languages.get(name).ok_or_else(|| LoadError::UnknownLanguage { name: name.into() });
    name.map(known).transpose()
}

fn language_of(file: &Path, languages: &Languages, chosen: Option<&Language>) -> Result<String, LoadError> {
    if let Some(language) = chosen {
        return Ok(language.name().to_owned());
    }
    let language = languages.by_extension(extension(file));
    language
        .map(|language| language.name().to_owned())
        .ok_or_else(|| LoadError::UnknownExtension { path: file.to_owned() })
}

fn extension(path: &Path) -> &str {
    path.extension().and_then(|extension| extension.to_str()).unwrap_or_default()
}

fn extensions(languages: &Languages) -> String {
    let extensions: Vec<_> = languages.iter().map(|language| language.extension()).collect();
    extensions.join(", ")
}

fn from_json(path: &Path, languages: &Languages, limit: usize) -> Result<ExecutionRequest, LoadError> {
    let named_json = path.as_os_str() == STDIN || extension(path) == "json";
    let body = if path.as_os_str() == STDIN { read::stdin(limit)? } else { read::bytes(path, limit)? };
    if !named_json && !body.trim_ascii_start().starts_with(b"{") {
        return Err(LoadError::NeitherRequestNorSource { path: path.to_owned(), extensions: extensions(languages) });
    }
    ExecutionRequest::from_json(&body).map_err(|problem| LoadError::Malformed { path: path.to_owned(), problem })
}

/// Without tests.
fn from_source(file: &Path, language: &str, limit: usize) -> Result<ExecutionRequest, LoadError> {
    Ok(ExecutionRequest {
        request_id: None,
        code: read::text(file, limit)?,
        language: language.to_owned(),
        test_cases: Vec::new(),
        timeout_ms: None,
        total_timeout_ms: None,
        memory_limit_mb: None,
        cpu_limit: None,
        priority: None,
        metadata: serde_json::Map::new(),
    })
}

#[cfg(test)]
mod tests;
