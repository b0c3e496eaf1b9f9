//! A dead letter, and what can be said of the request in it.

use serde::Serialize;
use tribunal_shared::config::LimitSettings;
use tribunal_shared::queue::DeadLetter;
use tribunal_shared::request::ExecutionRequest;

#[derive(Serialize)]
pub struct Letter<'a> {
    pub key: String,
    #[serde(flatten)]
    pub dead: &'a DeadLetter,
    #[serde(flatten)]
    pub content: Content,
    /// Only if it was asked for: nobody has read it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
}

#[derive(Debug, PartialEq, Serialize)]
pub struct Content {
    /// Of the whole message.
    pub bytes: usize,
    pub language: Option<String>,
    pub code_bytes: Option<usize>,
    pub tests: Option<usize>,
    /// The id that it asks for, which may be no id, or another request's.
    pub claimed_id: Option<String>,
    /// Why it is no request, if it is none.
    pub problem: Option<String>,
}

impl<'a> Letter<'a> {
    pub fn new(dead: &'a DeadLetter, limits: &LimitSettings) -> Self {
        Self { code: None, ..Self::with_code(dead, limits) }
    }

    /// With its code; or with all of it, if it is no request.
    pub fn with_code(dead: &'a DeadLetter, limits: &LimitSettings) -> Self {
        let bytes = dead.body.len();
        let (content, code) = match ExecutionRequest::from_json_within(&dead.body, limits.max_request_bytes) {
            Ok(ExecutionRequest { code, language, test_cases, request_id, .. }) => {
                let (code_bytes, tests) = (Some(code.len()), Some(test_cases.len()));
                let language = Some(language);
                (Content { bytes, language, code_bytes, tests, claimed_id: request_id, problem: None }, code)
            }
            Err(malformed) => {
                let problem = Some(malformed.to_string());
                let claimed_id = malformed.request_id.map(Into::into);
                let content = Content { bytes, language: None, code_bytes: None, tests: None, claimed_id, problem };
                (content, String::from_utf8_lossy(&dead.body).into_owned())
            }
        };
        Self { key: dead.key(), dead, content, code: Some(code) }
    }
}
