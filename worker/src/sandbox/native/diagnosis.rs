//! What this machine offers: each layer of the sandbox by itself, then all of them together.

use std::fs;
use std::path::Path;

use tribunal_shared::config::Settings;

use super::cgroup::Hierarchy;
use super::toolchain::Toolchain;
use crate::sandbox::{Finding, SandboxError, host_swaps};

const NAMESPACES: [&str; 7] = ["mnt", "pid", "net", "ipc", "uts", "cgroup", "user"];

/// Looks at everything the sandbox needs, without changing anything that lasts.
pub async fn diagnose(settings: &Settings) -> Vec<Finding> {
    let finding = |what: &str, found| Finding { what: what.into(), found };
    let mut findings = vec![
        finding("privileges", privileges()),
        finding("cgroups", cgroups()),
        finding("namespaces", namespaces()),
        finding("overlayfs", overlay()),
        finding("seccomp", seccomp()),
        finding("Landlock", landlock()),
    ];
    if findings.iter().all(|finding| finding.found.is_ok()) {
        findings.push(finding("sandbox", super::start(settings, &[]).await.map(|_| "a sandbox can be made".into())));
    }
    for language in settings.languages().iter() {
        let looked = Toolchain::of(language, &settings.sandbox.native).and_then(|tools| tools.look_for(language));
        // Nobody needs every language: what is missing is said, but is no fault.
        let said = looked.map_or_else(|error| error.to_string(), |()| "is here".into());
        findings.push(finding(&format!("toolchain of {}", language.name()), Ok(said)));
    }
    findings
}

pub fn privileges() -> Result<String, SandboxError> {
    if rustix::process::geteuid().is_root() {
        return Ok("root".into());
    }
    Err(unfit(
        "the native sandbox needs root, to make namespaces, mounts and cgroups that guests cannot undo",
        "Run it as root (sudo), or set sandbox.kind = \"docker\" (TRIBUNAL_SANDBOX__KIND=docker)",
    ))
}

pub fn cgroups() -> Result<String, SandboxError> {
    let tops = match Hierarchy::find()? {
        Hierarchy::V1(tops) => tops,
        Hierarchy::V2(top) => return Ok(format!("version 2 at {}, with memory, pids and cpu", top.display())),
    };
    if host_swaps() && !tops[0].join("memory.memsw.limit_in_bytes").exists() {
        return Err(unfit(
            "the kernel does not limit swap, so a program could use more memory than its limit",
            "Boot with swapaccount=1, or turn swap off",
        ));
    }
    Ok(format!("version 1 at {}, with memory, pids and cpu", tops[0].display()))
}

fn namespaces() -> Result<String, SandboxError> {
    let missing: Vec<_> =
        NAMESPACES.into_iter().filter(|name| !Path::new("/proc/self/ns").join(name).exists()).collect();
    if !missing.is_empty() {
        let problem = format!("the kernel has no namespaces of these kinds: {}", missing.join(", "));
        return Err(unfit(problem, "Use a kernel that has them"));
    }
    if fs::read_to_string("/proc/sys/user/max_user_namespaces").is_ok_and(|most| most.trim() == "0") {
        return Err(unfit("user namespaces are turned off", "Run `sysctl user.max_user_namespaces=10000`"));
    }
    Ok(NAMESPACES.join(", "))
}

fn overlay() -> Result<String, SandboxError> {
    let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    // One that can be loaded is loaded when it is needed.
    match known.lines().any(|line| line.ends_with("\toverlay")) {
        true => Ok("is known to the kernel".into()),
        false => Ok("is not known to the kernel yet; if it is a module, it is loaded on first use".into()),
    }
}

fn seccomp() -> Result<String, SandboxError> {
    match fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail") {
        Ok(actions) if actions.contains("errno") => Ok("filters can be loaded".into()),
        _ => Err(unfit("the kernel cannot filter system calls", "Use one built with CONFIG_SECCOMP_FILTER")),
    }
}

/// Said, but not needed: it says once more what the mounts say already.
fn landlock() -> Result<String, SandboxError> {
    const ASK_FOR_VERSION: u32 = 1;
    // SAFETY: asked for the version, the call touches no memory.
    let version =
        unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<()>(), 0usize, ASK_FOR_VERSION) };
    match version {
        1.. => Ok(format!("version {version}")),
        _ => Ok("not in this kernel: one layer less, the others stand".into()),
    }
}

fn unfit(problem: impl Into<String>, remedy: impl Into<String>) -> SandboxError {
    SandboxError::Unfit { problem: problem.into(), remedy: remedy.into() }
}
