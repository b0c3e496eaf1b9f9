//! Settings: the embedded defaults, then `tribunal.toml`, then the environment, then flags.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use config::builder::{ConfigBuilder, DefaultState};
use config::{Config, ConfigError, Environment, File, FileFormat};
use serde::de::IntoDeserializer as _;
use serde::{Deserialize, Deserializer};

use crate::language::{Language, Languages, Root};

/// The documented default file.
pub const DEFAULTS: &str = include_str!("../tribunal.toml");
const LANGUAGES: &str = include_str!("../languages.toml");

/// Where a settings file may be named in the environment.
pub const CONFIG_VARIABLE: &str = "TRIBUNAL_CONFIG";
const PREFIX: &str = "TRIBUNAL";
const WORKING_FOLDER_FILE: &str = "tribunal.toml";

const DAY_S: u64 = 24 * 60 * 60;
const DAY_MS: u64 = DAY_S * 1000;
const TIB_MB: u64 = 1024 * 1024;

type Layers = ConfigBuilder<DefaultState>;

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct Settings {
    pub queue: QueueSettings,
    pub store: StoreSettings,
    pub worker: WorkerSettings,
    pub sandbox: SandboxSettings,
    pub limits: LimitSettings,
    languages: BTreeMap<String, Language>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct QueueSettings {
    pub url: String,
    pub name: String,
    #[serde(deserialize_with = "words")]
    pub separate: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct StoreSettings {
    pub url: String,
    pub result_ttl_s: u64,
    pub allow_eviction: bool,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct WorkerSettings {
    slots: usize,
    pub max_attempts: u32,
    pub grace_s: u64,
    #[serde(deserialize_with = "words")]
    pub languages: Vec<String>,
    pub listen: String,
}

impl WorkerSettings {
    pub fn slots(&self) -> usize {
        match self.slots {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            slots => slots,
        }
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct SandboxSettings {
    #[serde(deserialize_with = "word")]
    pub kind: SandboxKind,
    pub workspace_root: PathBuf,
    pub output_limit_kb: u64,
    pub result_output_kb: u64,
    pub max_processes: u64,
    pub tmp_mb: u64,
    pub workspace_limit_mb: u64,
    pub wall_allowance_ms: u64,
    pub native: NativeSettings,
    pub docker: DockerSettings,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SandboxKind {
    Native,
    Docker,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct NativeSettings {
    pub root: String,
    pub roots: PathBuf,
    pub cgroup: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct DockerSettings {
    pub host: String,
    pub runtime: String,
    #[serde(deserialize_with = "word")]
    pub pull_policy: PullPolicy,
    pub user: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PullPolicy {
    Always,
    IfNotPresent,
    Never,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct LimitSettings {
    pub max_code_bytes: usize,
    pub max_tests: usize,
    pub max_request_bytes: usize,
    pub timeout_ms: Range,
    pub total_timeout_ms: UpTo<u64>,
    pub memory_mb: Range,
    pub cpu: UpTo<f64>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct Range {
    pub default: u64,
    pub min: u64,
    pub max: u64,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct UpTo<T> {
    pub default: T,
    pub max: T,
}

#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    #[error("settings: {problem} (in {place})")]
    Invalid { problem: String, place: String },
    #[error("settings: the file {path} named by {named_by} cannot be read: {source}")]
    File { path: PathBuf, named_by: &'static str, source: std::io::Error },
}

impl Settings {
    /// `file` comes from `--config`; without it `TRIBUNAL_CONFIG` and then the working folder are looked at.
    pub fn load(file: Option<&Path>) -> Result<Self, SettingsError> {
        // A value that is no text is wrong: better to be told than to have it ignored.
        let text = |value: std::ffi::OsString| value.to_string_lossy().into_owned();
        Self::layered(file, std::env::vars_os().map(|(name, value)| (text(name), text(value))))
    }

    /// Settings as they are without any file or variable.
    pub fn defaults() -> Self {
        Self::build(None, HashMap::new()).expect("the embedded defaults are valid")
    }

    fn layered(
        file: Option<&Path>,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<Self, SettingsError> {
        let mut variables: HashMap<_, _> =
            environment.filter(|(name, _)| name.to_uppercase().starts_with("TRIBUNAL_")).collect();
        let named = variables.remove(CONFIG_VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
        let (path, named_by) = match (file, named) {
            (Some(path), _) => (path.to_owned(), "--config"),
            (None, Some(path)) => (path, CONFIG_VARIABLE),
            (None, None) => (WORKING_FOLDER_FILE.into(), ""),
        };
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => Some((path, text)),
            Err(error) if named_by.is_empty() && error.kind() == std::io::ErrorKind::NotFound => None,
            Err(source) => return Err(SettingsError::File { path, named_by, source }),
        };
        Self::build(text, variables)
    }

    /// What the file says must hold by itself, so that an error names its place: the file, or a variable.
    fn build(file: Option<(PathBuf, String)>, variables: HashMap<String, String>) -> Result<Self, SettingsError> {
        let mut layers = Config::builder()
            .add_source(File::from_str(DEFAULTS, FileFormat::Toml))
            .add_source(File::from_str(LANGUAGES, FileFormat::Toml));
        if let Some((_, text)) = &file {
            layers = layers.add_source(File::from_str(text, FileFormat::Toml));
        }
        let settings = Self::from_files(layers.clone()).map_err(|problem| {
            let place = file.map_or_else(|| "the defaults".into(), |(path, _)| path.display().to_string());
            SettingsError::Invalid { problem, place }
        })?;
        if variables.is_empty() {
            return Ok(settings);
        }
        Self::from_files_and_variables(layers, variables.clone())
            .map_err(|problem| SettingsError::Invalid { place: responsible(&variables, &problem), problem })
    }

    /// By way of JSON values, which are strict about kinds: `true` is no number.
    fn from_files(layers: Layers) -> Result<Self, String> {
        let merged = layers.build().and_then(Config::try_deserialize::<serde_json::Value>).map_err(explain)?;
        serde_path_to_error::deserialize(merged)
            .map_err(|error| format!("{}: {}", error.path(), error.inner()))
            .and_then(Self::checked)
    }

    /// A variable is text, and converted to the kind that its key has.
    fn from_files_and_variables(layers: Layers, variables: HashMap<String, String>) -> Result<Self, String> {
        let environment = Environment::with_prefix(PREFIX)
            .prefix_separator("_")
            .separator("__")
            .ignore_empty(true)
            .source(Some(variables));
        let merged = layers.add_source(environment).build().map_err(explain)?;
        serde_path_to_error::deserialize(merged)
            .map_err(|error| format!("{}: {}", error.path().clone(), explain(error.into_inner())))
            .and_then(Self::checked)
    }

    fn checked(self) -> Result<Self, String> {
        self.check().map(|()| self)
    }

    fn check(&self) -> Result<(), String> {
        self.check_bounds()?;
        for (name, range) in [("timeout_ms", self.limits.timeout_ms), ("memory_mb", self.limits.memory_mb)] {
            if !(range.min <= range.default && range.default <= range.max) {
                return Err(format!("limits.{name}: min <= default <= max does not hold"));
            }
        }
        if !(self.limits.cpu.default > 0.0 && self.limits.cpu.default <= self.limits.cpu.max) {
            return Err("limits.cpu: 0 < default <= max does not hold".into());
        }
        let (timeout, total) = (self.limits.timeout_ms.default, self.limits.total_timeout_ms);
        if !(timeout <= total.default && total.default <= total.max) {
            return Err("limits.total_timeout_ms: limits.timeout_ms.default <= default <= max does not hold".into());
        }
        if self.queue.name.is_empty() || self.queue.name.len() > 200 {
            return Err("queue.name: must be 1 to 200 bytes long".into());
        }
        let native = &self.sandbox.native;
        for (key, path) in
            [("sandbox.workspace_root", &self.sandbox.workspace_root), ("sandbox.native.roots", &native.roots)]
        {
            if !path.is_absolute() {
                return Err(format!("{key}: must be an absolute path"));
            }
        }
        let plain = |part: &str| !part.is_empty() && part != "." && part != ".." && !part.contains('\0');
        if !native.cgroup.split('/').all(plain) {
            return Err("sandbox.native.cgroup: must be a relative path like tribunal or a/b".into());
        }
        Root::parse(&native.root).map_err(|problem| format!("sandbox.native.root: {problem}"))?;
        let languages = Languages::new(self.languages.clone()).map_err(|error| error.to_string())?;
        self.check_bindings(&languages)
    }

    /// Names, not aliases: they are parts of the names of queues.
    fn check_bindings(&self, languages: &Languages) -> Result<(), String> {
        let is_name = |name: &String| languages.iter().any(|language| language.name() == name);
        if let Some(unknown) = self.queue.separate.iter().find(|name| !is_name(name)) {
            return Err(format!("queue.separate: {unknown:?} is not the name of a language"));
        }
        if let Some(shared) = self.worker.languages.iter().find(|name| !self.queue.separate.contains(name)) {
            return Err(format!(
                "worker.languages: {shared:?} has no queue of its own; add it to queue.separate, for producers too"
            ));
        }
        let listen = &self.worker.listen;
        if !listen.is_empty() && listen.parse::<std::net::SocketAddr>().is_err() {
            return Err(format!("worker.listen: {listen:?} is no address like 127.0.0.1:9100"));
        }
        Ok(())
    }

    fn check_bounds(&self) -> Result<(), String> {
        let Self { store, worker, sandbox, limits, .. } = self;
        let bounds = [
            ("store.result_ttl_s", store.result_ttl_s, 1..=10 * 365 * DAY_S),
            ("worker.slots", worker.slots as u64, 0..=1024),
            // The broker gives up after 20 deliveries by itself; we must do so earlier, with a result.
            ("worker.max_attempts", worker.max_attempts.into(), 1..=10),
            ("worker.grace_s", worker.grace_s, 0..=3600),
            ("sandbox.output_limit_kb", sandbox.output_limit_kb, 1..=65_536),
            ("sandbox.result_output_kb", sandbox.result_output_kb, 1..=262_144),
            ("sandbox.max_processes", sandbox.max_processes, 1..=100_000),
            // To a tmpfs, 0 would mean no limit.
            ("sandbox.tmp_mb", sandbox.tmp_mb, 1..=65_536),
            ("sandbox.workspace_limit_mb", sandbox.workspace_limit_mb, 1..=1_048_576),
            ("sandbox.wall_allowance_ms", sandbox.wall_allowance_ms, 0..=60_000),
            ("limits.max_code_bytes", limits.max_code_bytes as u64, 1..=u64::MAX),
            ("limits.max_tests", limits.max_tests as u64, 1..=u64::MAX),
            ("limits.max_request_bytes", limits.max_request_bytes as u64, 1..=u64::MAX),
            ("limits.timeout_ms.min", limits.timeout_ms.min, 1..=DAY_MS),
            ("limits.timeout_ms.max", limits.timeout_ms.max, 1..=DAY_MS),
            ("limits.total_timeout_ms.max", limits.total_timeout_ms.max, 1..=DAY_MS),
            ("limits.memory_mb.min", limits.memory_mb.min, 1..=TIB_MB),
            ("limits.memory_mb.max", limits.memory_mb.max, 1..=TIB_MB),
        ];
        for (key, value, bounds) in bounds {
            if !bounds.contains(&value) {
                return Err(match bounds.into_inner() {
                    (least, u64::MAX) => format!("{key}: {value} is less than {least}"),
                    (least, most) => format!("{key}: {value} is not between {least} and {most}"),
                });
            }
        }
        let cores = limits.cpu.max;
        if !(cores > 0.0 && cores <= 1024.0) {
            return Err(format!("limits.cpu.max: {cores} is not more than 0 and at most 1024"));
        }
        Ok(())
    }

    pub fn languages(&self) -> Languages {
        Languages::new(self.languages.clone()).expect("checked when the settings were loaded")
    }
}

/// The variables that set the key a problem starts with; all of them, if it cannot be told.
fn responsible(variables: &HashMap<String, String>, problem: &str) -> String {
    let key = problem.split(':').next().unwrap_or_default();
    let name = format!("{PREFIX}_{}", key.replace('.', "__")).to_uppercase();
    let mut names: Vec<_> = variables.keys().map(String::as_str).collect();
    names.sort_unstable();
    // The key itself, or one below it: `limits.timeout_ms` may be wrong because of its `min`.
    let sets_it = |variable: &str| match variable.to_uppercase().strip_prefix(&name) {
        Some(rest) => rest.is_empty() || rest.starts_with("__"),
        None => false,
    };
    let setting_it: Vec<_> = names.iter().copied().filter(|variable| sets_it(variable)).collect();
    if setting_it.is_empty() { names.join(", ") } else { setting_it.join(", ") }
}

/// Without the key, which the path names already.
fn explain(error: ConfigError) -> String {
    match error {
        ConfigError::At { error, .. } => explain(*error),
        ConfigError::Type { unexpected, expected, .. } => format!("invalid type: {unexpected}, expected {expected}"),
        error => error.to_string().trim_end().to_owned(),
    }
}

/// An enum's variant. Through a string, because the error then names the variants that there are.
fn word<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    T::deserialize(String::deserialize(deserializer)?.into_deserializer())
}

/// A list of words, or a text with commas: a variable can only be text.
fn words<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "must be a list of words")]
    enum Words {
        List(Vec<String>),
        Text(String),
    }
    Ok(match Words::deserialize(deserializer)? {
        Words::List(words) => words,
        Words::Text(text) => {
            text.split(',').map(|word| word.trim().to_owned()).filter(|word| !word.is_empty()).collect()
        }
    })
}

#[cfg(test)]
mod tests;
