//! Artifacts of a fleet of code-writing agents: code that becomes a request, results that become an artifact.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::language::Languages;
use crate::request::{ExecutionRequest, RequestId, TestCase};
use crate::result::{ExecutionResult, TestStatus};

/// A result whose JSON is smaller than this travels inside its artifact.
const INLINE_BELOW_BYTES: usize = 1024;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Artifact {
    pub artifact_type: String,
    #[serde(default)]
    pub content_ref: Option<String>,
    #[serde(default)]
    pub inline_content: Option<String>,
    #[serde(default)]
    pub metadata: Map<String, Value>,
}

/// A test as agents write it: `expected`, or else `expected_output`; `hidden` or `is_hidden`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct ArtifactTest {
    pub id: Option<String>,
    #[serde(default)]
    pub input: String,
    pub expected: Option<String>,
    #[serde(default)]
    pub expected_output: String,
    #[serde(default)]
    pub hidden: bool,
    #[serde(default)]
    pub is_hidden: bool,
    #[serde(default)]
    pub description: String,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArtifactError {
    #[error("Large artifacts must be resolved before execution: {0} has no inline content")]
    Unresolved(String),
    #[error("the artifact has neither inline content nor a reference to it")]
    Empty,
}

impl Artifact {
    /// The request that runs this artifact's code. An absent or unknown language is taken for Python.
    pub fn into_request(
        self,
        tests: Vec<ArtifactTest>,
        request_id: Option<RequestId>,
        languages: &Languages,
    ) -> Result<ExecutionRequest, ArtifactError> {
        let code = match (self.inline_content.filter(|code| !code.is_empty()), self.content_ref) {
            (Some(code), _) => code,
            (None, Some(reference)) => return Err(ArtifactError::Unresolved(reference)),
            (None, None) => return Err(ArtifactError::Empty),
        };
        let language = self
            .metadata
            .get("language")
            .and_then(Value::as_str)
            .and_then(|name| languages.get(name))
            .map_or_else(|| "python".to_owned(), |language| language.name().to_owned());
        let test_cases = tests
            .into_iter()
            .map(|test| TestCase {
                id: test.id,
                input: test.input,
                expected_output: test.expected.unwrap_or(test.expected_output),
                is_hidden: test.hidden || test.is_hidden,
                timeout_ms: None,
                description: test.description,
            })
            .collect();
        Ok(ExecutionRequest {
            request_id: Some(request_id.unwrap_or_else(RequestId::generate).into()),
            code,
            language,
            test_cases,
            timeout_ms: None,
            total_timeout_ms: None,
            memory_limit_mb: None,
            cpu_limit: None,
            priority: None,
            metadata: Map::new(),
        })
    }

    /// The artifact of a result and, if that was too large to travel inside, the content to store under its reference.
    pub fn from_result(result: &ExecutionResult, key: Option<&str>) -> (Self, Option<String>) {
        let passed = result.test_results.iter().filter(|test| test.status == TestStatus::Passed).count();
        let total = result.test_results.len();
        let tests: Vec<_> = result
            .test_results
            .iter()
            .map(|test| {
                json!({
                    "id": test.test_id,
                    "status": test.status,
                    "time_ms": test.execution_time_ms,
                    "memory_kb": test.memory_used_kb,
                })
            })
            .collect();
        let content = json!({
            "status": result.status,
            "passed": passed,
            "total": total,
            "total_time_ms": result.total_time_ms,
            "summary": result.summary,
            "test_results": tests,
        });
        let content = format!("{content:#}");
        let inline = content.len() < INLINE_BELOW_BYTES;
        let key = || key.map_or_else(|| format!("execution/results/{}", result.request_id), str::to_owned);
        let metadata = [("status", json!(result.status)), ("passed", json!(passed)), ("total", json!(total))];
        let artifact = Self {
            artifact_type: "test_result".into(),
            content_ref: (!inline).then(|| format!("beads:{}", key())),
            inline_content: inline.then(|| content.clone()),
            metadata: metadata.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        };
        (artifact, (!inline).then_some(content))
    }
}

#[cfg(test)]
mod tests;
