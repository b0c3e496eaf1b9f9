//! Settings: the embedded defaults, then `tribunal.toml`, then the environment, then flags.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use config::{Config, Environment, File, FileFormat};
use serde::Deserialize;

use crate::language::{Language, Languages};

/// The documented default file.
pub const DEFAULTS: &str = include_str!("../tribunal.toml");
const LANGUAGES: &str = include_str!("../languages.toml");

/// Where a settings file may be named in the environment.
pub const CONFIG_VARIABLE: &str = "TRIBUNAL_CONFIG";
const PREFIX: &str = "TRIBUNAL";
const WORKING_FOLDER_FILE: &str = "tribunal.toml";

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    pub queue: QueueSettings,
    pub store: StoreSettings,
    pub worker: WorkerSettings,
    pub sandbox: SandboxSettings,
    pub limits: LimitSettings,
    languages: BTreeMap<String, Language>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueSettings {
    pub url: String,
    pub name: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoreSettings {
    pub url: String,
    pub result_ttl_s: u64,
    pub allow_eviction: bool,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerSettings {
    slots: usize,
    pub max_attempts: u32,
    pub grace_s: u64,
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
#[serde(deny_unknown_fields)]
pub struct SandboxSettings {
    pub kind: SandboxKind,
    pub workspace_root: PathBuf,
    pub output_limit_kb: u64,
    pub max_processes: u64,
    pub tmp_mb: u64,
    pub workspace_limit_mb: u64,
    pub wall_allowance_ms: u64,
    pub docker: DockerSettings,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SandboxKind {
    Docker,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DockerSettings {
    pub host: String,
    pub runtime: String,
    pub pull_policy: PullPolicy,
    pub user: String,
    pub cgroup_root: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PullPolicy {
    Always,
    IfNotPresent,
    Never,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
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
#[serde(deny_unknown_fields)]
pub struct Range {
    pub default: u64,
    pub min: u64,
    pub max: u64,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UpTo<T> {
    pub default: T,
    pub max: T,
}

#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    #[error("settings: {0}")]
    Invalid(String),
    #[error("settings: the file {path} named by {named_by} cannot be read: {source}")]
    File { path: PathBuf, named_by: &'static str, source: std::io::Error },
}

impl Settings {
    /// `file` comes from `--config`; without it `TRIBUNAL_CONFIG` and then the working folder are looked at.
    pub fn load(file: Option<&Path>) -> Result<Self, SettingsError> {
        Self::layered(
            file,
            std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?))),
        )
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

    fn build(file: Option<(PathBuf, String)>, variables: HashMap<String, String>) -> Result<Self, SettingsError> {
        let origin = file.as_ref().map(|(path, _)| path.display().to_string());
        let mut builder = Config::builder()
            .add_source(File::from_str(DEFAULTS, FileFormat::Toml))
            .add_source(File::from_str(LANGUAGES, FileFormat::Toml));
        if let Some((_, text)) = &file {
            builder = builder.add_source(File::from_str(text, FileFormat::Toml));
        }
        let environment = Environment::with_prefix(PREFIX)
            .prefix_separator("_")
            .separator("__")
            .try_parsing(true)
            .ignore_empty(true)
            .source(Some(variables.clone()));
        let invalid = |problem: String| {
            let place = match (&origin, variables.is_empty()) {
                (Some(path), true) => format!(" (in {path})"),
                (Some(path), false) => format!(" (in {path} or a TRIBUNAL_… variable)"),
                (None, false) => " (in a TRIBUNAL_… variable)".to_owned(),
                (None, true) => String::new(),
            };
            SettingsError::Invalid(format!("{problem}{place}"))
        };
        let merged = builder.add_source(environment).build().map_err(|error| invalid(error.to_string()))?;
        let settings: Self = serde_path_to_error::deserialize(merged).map_err(|error| {
            let path = error.path().to_string();
            invalid(format!("{path}: {}", error.into_inner()))
        })?;
        settings.check().map_err(invalid)?;
        Ok(settings)
    }

    fn check(&self) -> Result<(), String> {
        for (name, range) in [("timeout_ms", self.limits.timeout_ms), ("memory_mb", self.limits.memory_mb)] {
            if !(range.min <= range.default && range.default <= range.max) {
                return Err(format!("limits.{name}: min <= default <= max does not hold"));
            }
        }
        if !(self.limits.cpu.default > 0.0 && self.limits.cpu.default <= self.limits.cpu.max) {
            return Err("limits.cpu: 0 < default <= max does not hold".into());
        }
        if self.limits.total_timeout_ms.default > self.limits.total_timeout_ms.max {
            return Err("limits.total_timeout_ms: default is more than max".into());
        }
        if self.worker.max_attempts == 0 {
            return Err("worker.max_attempts: must be at least 1".into());
        }
        if self.store.result_ttl_s == 0 {
            return Err("store.result_ttl_s: must be at least 1".into());
        }
        if self.queue.name.is_empty() || self.queue.name.len() > 200 {
            return Err("queue.name: must be 1 to 200 bytes long".into());
        }
        if !self.sandbox.workspace_root.is_absolute() {
            return Err("sandbox.workspace_root: must be an absolute path".into());
        }
        Languages::new(self.languages.clone()).map_err(|error| error.to_string())?;
        Ok(())
    }

    pub fn languages(&self) -> Languages {
        Languages::new(self.languages.clone()).expect("checked when the settings were loaded")
    }
}

#[cfg(test)]
mod tests;
