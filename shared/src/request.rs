//! A request, twice: [`ExecutionRequest`] as it travels, and [`Job`] once it has been checked.
//!
//! A `Job` can only be made by [`Job::check`], so whatever holds one never checks again.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Serialize};
use serde_path_to_error::Segment;
use sha2::{Digest as _, Sha256};

use crate::config::{LimitSettings, Range};
use crate::language::{Language, Languages};

/// The wire form: what any producer, in any language, puts on the queue as JSON.
///
/// Numbers are wider than what is allowed, so that a value out of bounds is answered by
/// validation, with its field's name and the bounds, and not by the JSON parser.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExecutionRequest {
    /// Chosen by the caller, or given by the client on submission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    pub code: String,
    pub language: String,
    pub test_cases: Vec<TestCase>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_timeout_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_limit_mb: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_limit: Option<f64>,
    /// `low`, `normal` or `high`; as text, so that another word is answered by validation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<String>,
    #[serde(default, deserialize_with = "small_object", skip_serializing_if = "serde_json::Map::is_empty")]
    pub metadata: serde_json::Map<String, serde_json::Value>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TestCase {
    /// `test_0`, `test_1`, … by position when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    #[serde(default)]
    pub input: String,
    /// Required: a test without it would compare with nothing and pass or fail by accident.
    pub expected_output: String,
    #[serde(default)]
    pub is_hidden: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<i64>,
    #[serde(default)]
    pub description: String,
}

/// The caller's own, which nobody here looks into. It is taken apart only if it is small: in memory, JSON made for it takes
/// a hundred times its length.
fn small_object<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<serde_json::Map<String, serde_json::Value>, D::Error> {
    const LONGEST: usize = 64 * 1024;
    let raw = Box::<serde_json::value::RawValue>::deserialize(deserializer)?;
    let raw = raw.get();
    if raw.len() > LONGEST {
        return Err(D::Error::custom(format!("is {} bytes long, at most {LONGEST} are allowed", raw.len())));
    }
    serde_json::from_str(raw).map_err(D::Error::custom)
}

/// A body that is not an [`ExecutionRequest`] at all.
#[derive(Debug, thiserror::Error)]
#[error("{field}: {message}")]
pub struct Malformed {
    pub field: String,
    pub message: String,
    /// The id, where the body was at least readable enough to find one.
    pub request_id: Option<RequestId>,
}

impl Malformed {
    /// The id may be found in a body that is no request otherwise.
    fn new(field: &str, mut message: String, body: &[u8]) -> Self {
        // It may quote what it found.
        message.truncate(message.floor_char_boundary(300));
        #[derive(Deserialize)]
        struct OnlyId {
            request_id: String,
        }

        // Not `from_slice`, which would also ask for a clean end.
        let only_id = OnlyId::deserialize(&mut serde_json::Deserializer::from_slice(body));
        let request_id = only_id.ok().and_then(|only| only.request_id.parse().ok());
        Self { field: field.into(), message, request_id }
    }
}

impl ExecutionRequest {
    /// A body of more than `limit` bytes is not taken apart.
    pub fn from_json_within(body: &[u8], limit: usize) -> Result<Self, Malformed> {
        if body.len() > limit {
            let message = format!("is {} bytes long, at most {limit} are allowed", body.len());
            return Err(Malformed::new(WHOLE, message, body));
        }
        Self::from_json(body)
    }

    pub fn from_json(body: &[u8]) -> Result<Self, Malformed> {
        let mut json = serde_json::Deserializer::from_slice(body);
        let request = serde_path_to_error::deserialize(&mut json)
            .map_err(|error| Malformed::new(&field_at(error.path()), error.inner().to_string(), body))?;
        json.end().map_err(|error| Malformed::new(WHOLE, error.to_string(), body))?;
        Ok(request)
    }
}

const WHOLE: &str = "request";

/// A path as far as it could be one of ours: it may lead through keys that somebody made up, and it is said in logs and
/// headers.
fn field_at(path: &serde_path_to_error::Path) -> String {
    const LONGEST_NAME: usize = 32;
    let is_name = |key: &str| key.len() <= LONGEST_NAME && key.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'_'));
    let mut field = String::new();
    for segment in path {
        match segment {
            Segment::Seq { index } => field += &format!("[{index}]"),
            Segment::Map { key } if is_name(key) => {
                if !field.is_empty() {
                    field.push('.');
                }
                field += key;
            }
            Segment::Map { .. } | Segment::Enum { .. } | Segment::Unknown => break,
        }
    }
    if field.is_empty() { WHOLE.into() } else { field }
}

/// What makes two submissions under one id the same submission: SHA-256 of the body as it travels, in hexadecimal. Not of
/// what was understood of it, which may be less on a worker that is older than its producer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digest(String);

impl Digest {
    pub fn of(body: &[u8]) -> Self {
        Self(format!("{:x}", Sha256::digest(body)))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// 1 to 128 characters of `[A-Za-z0-9._:-]`: safe in a Redis key, a label and a log line.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RequestId(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("must be 1 to 128 characters of A-Z a-z 0-9 . _ : -")]
pub struct BadRequestId;

impl RequestId {
    /// A new id. Version 7, so that ids sort by time.
    pub fn generate() -> Self {
        Self(uuid::Uuid::now_v7().to_string())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::str::FromStr for RequestId {
    type Err = BadRequestId;

    fn from_str(text: &str) -> Result<Self, BadRequestId> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
        if (1..=128).contains(&text.len()) && text.bytes().all(allowed) {
            Ok(Self(text.to_owned()))
        } else {
            Err(BadRequestId)
        }
    }
}

impl TryFrom<String> for RequestId {
    type Error = BadRequestId;

    fn try_from(text: String) -> Result<Self, BadRequestId> {
        text.parse()
    }
}

impl From<RequestId> for String {
    fn from(id: RequestId) -> Self {
        id.0
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Which requests are served first. High ones overtake; low ones are slow under load, but never starved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    High,
    #[default]
    Normal,
    Low,
}

impl Priority {
    /// The most urgent first.
    pub const ALL: [Self; 3] = [Self::High, Self::Normal, Self::Low];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::High => "high",
            Self::Normal => "normal",
            Self::Low => "low",
        }
    }

    /// Of a hundred and five turns, how many it gets when all priorities have work.
    pub fn weight(self) -> u32 {
        match self {
            Self::High => 80,
            Self::Normal => 20,
            Self::Low => 5,
        }
    }
}

/// A request that passed every check. Its fields are private: the only way to one is [`Job::check`].
#[derive(Debug, Clone)]
pub struct Job {
    id: RequestId,
    code: String,
    language: Arc<Language>,
    tests: Vec<Test>,
    limits: Limits,
    priority: Priority,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Test {
    pub id: String,
    pub input: String,
    pub expected_output: String,
    pub timeout: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    pub timeout: Duration,
    pub total_timeout: Duration,
    pub memory_mb: u64,
    pub cpus: f64,
}

/// Why a request did not become a [`Job`]: every problem, each with its field.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Rejection {
    #[error("{}", join(.0))]
    Invalid(Vec<Problem>),
    /// Only when nothing else is wrong.
    #[error("language: {0:?} is not supported")]
    UnsupportedLanguage(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub field: String,
    pub message: String,
}

fn join(problems: &[Problem]) -> String {
    let lines: Vec<_> = problems.iter().map(|p| format!("{}: {}", p.field, p.message)).collect();
    lines.join("; ")
}

impl Job {
    pub fn check(request: ExecutionRequest, limits: &LimitSettings, languages: &Languages) -> Result<Self, Rejection> {
        let mut problems = Problems::default();

        let id = match request.request_id.as_deref().unwrap_or_default().parse::<RequestId>() {
            Ok(id) => Some(id),
            Err(error) => problems.add("request_id", error.to_string()),
        };
        let code = problems.check_code(request.code, limits.max_code_bytes);
        let timeout_ms = problems.check_range("timeout_ms", request.timeout_ms, limits.timeout_ms, "ms");
        let memory_mb = problems.check_range("memory_limit_mb", request.memory_limit_mb, limits.memory_mb, "MB");
        let total_ms = request.total_timeout_ms.unwrap_or(limits.total_timeout_ms.default as i64);
        // A timeout that is wrong itself says nothing about the total.
        let least_ms = timeout_ms.unwrap_or(limits.timeout_ms.min);
        if total_ms < least_ms as i64 || total_ms > limits.total_timeout_ms.max as i64 {
            problems.add::<()>(
                "total_timeout_ms",
                format!("{total_ms} ms is not between timeout_ms ({least_ms}) and {} ms", limits.total_timeout_ms.max),
            );
        }
        let cpus = request.cpu_limit.unwrap_or(limits.cpu.default);
        if !(cpus > 0.0 && cpus <= limits.cpu.max) {
            problems.add::<()>("cpu_limit", format!("{cpus} is not more than 0 and at most {}", limits.cpu.max));
        }
        let tests = problems.check_tests(request.test_cases, least_ms, limits);
        let priority = problems.check_priority(request.priority.as_deref());
        let language = languages.get(&request.language);

        match (id, language, timeout_ms, memory_mb) {
            (Some(id), Some(language), Some(timeout_ms), Some(memory_mb)) if problems.0.is_empty() => Ok(Self {
                id,
                code,
                language,
                tests,
                limits: Limits {
                    timeout: Duration::from_millis(timeout_ms),
                    total_timeout: Duration::from_millis(total_ms as u64),
                    memory_mb,
                    cpus,
                },
                priority,
            }),
            (_, None, ..) if problems.0.is_empty() => Err(Rejection::UnsupportedLanguage(excerpt(&request.language))),
            (_, language, ..) => {
                if language.is_none() {
                    problems.add::<()>("language", format!("{:?} is not supported", excerpt(&request.language)));
                }
                Err(Rejection::Invalid(problems.0))
            }
        }
    }

    pub fn id(&self) -> &RequestId {
        &self.id
    }

    /// The source, without NUL bytes.
    pub fn code(&self) -> &str {
        &self.code
    }

    pub fn language(&self) -> &Arc<Language> {
        &self.language
    }

    pub fn tests(&self) -> &[Test] {
        &self.tests
    }

    pub fn limits(&self) -> Limits {
        self.limits
    }

    pub fn priority(&self) -> Priority {
        self.priority
    }
}

/// Hostile names are echoed, but not at any length.
fn excerpt(text: &str) -> String {
    text.chars().take(64).collect()
}

#[derive(Default)]
struct Problems(Vec<Problem>);

impl Problems {
    fn add<T>(&mut self, field: impl Into<String>, message: String) -> Option<T> {
        self.0.push(Problem { field: field.into(), message });
        None
    }

    fn check_code(&mut self, code: String, max_bytes: usize) -> String {
        let code = if code.contains('\0') { code.replace('\0', "") } else { code };
        if code.trim().is_empty() {
            self.add::<()>("code", "is empty".into());
        } else if code.len() > max_bytes {
            self.add::<()>("code", format!("is {} bytes long, at most {max_bytes} are allowed", code.len()));
        }
        code
    }

    fn check_range(&mut self, field: &str, value: Option<i64>, bounds: Range, unit: &str) -> Option<u64> {
        let Some(value) = value else { return Some(bounds.default) };
        match u64::try_from(value) {
            Ok(value) if (bounds.min..=bounds.max).contains(&value) => Some(value),
            _ => self.add(field, format!("{value} {unit} is not between {} and {} {unit}", bounds.min, bounds.max)),
        }
    }

    fn check_priority(&mut self, word: Option<&str>) -> Priority {
        let Some(word) = word else { return Priority::default() };
        Priority::ALL.into_iter().find(|priority| priority.as_str() == word).unwrap_or_else(|| {
            self.add::<()>("priority", format!("{:?} is neither low, normal nor high", excerpt(word)));
            Priority::default()
        })
    }

    fn check_tests(&mut self, cases: Vec<TestCase>, timeout_ms: u64, limits: &LimitSettings) -> Vec<Test> {
        if cases.is_empty() {
            self.add::<()>("test_cases", "no test cases provided".into());
        } else if cases.len() > limits.max_tests {
            self.add::<()>(
                "test_cases",
                format!("has {} tests, at most {} are allowed", cases.len(), limits.max_tests),
            );
            // Naming a problem for each of a million tests helps nobody.
            return Vec::new();
        }

        let mut seen = HashSet::new();
        let mut tests = Vec::with_capacity(cases.len());
        for (index, case) in cases.into_iter().enumerate() {
            let field = |name: &str| format!("test_cases[{index}].{name}");
            let id = case.id.unwrap_or_else(|| format!("test_{index}"));
            if id.is_empty() || id.chars().count() > 128 || id.chars().any(char::is_control) {
                self.add::<()>(field("id"), "must be 1 to 128 characters without control characters".into());
            } else if !seen.insert(id.clone()) {
                self.add::<()>(field("id"), format!("{id:?} is used twice"));
            }
            let timeout = match case.timeout_ms {
                None => timeout_ms,
                own => self.check_range(&field("timeout_ms"), own, limits.timeout_ms, "ms").unwrap_or(timeout_ms),
            };
            tests.push(Test {
                id,
                input: case.input,
                expected_output: case.expected_output,
                timeout: Duration::from_millis(timeout),
            });
        }
        tests
    }
}

#[cfg(test)]
mod tests;
