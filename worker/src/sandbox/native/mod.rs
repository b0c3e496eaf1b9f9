//! The native sandbox: a container for every compile and every test, made by the worker itself.

pub mod toolchain;

use std::sync::Arc;

use tribunal_shared::config::Settings;

use super::{Finding, Sandbox, SandboxError};

/// One layer of the sandbox. Tests switch one off to see that its loss is noticed; no setting can.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Defence {
    Seccomp,
}

/// Must be the first thing in `main` of every program that uses this sandbox: if this process was started to be a
/// zygote, it serves as one and does not return.
pub fn serve_if_zygote() {}

/// `without` is for tests alone.
pub async fn start(_settings: &Settings, _without: &[Defence]) -> Result<Arc<dyn Sandbox>, SandboxError> {
    Err(SandboxError::failed("starting the native sandbox", "not built yet"))
}

pub async fn diagnose(_settings: &Settings) -> Vec<Finding> {
    Vec::new()
}
