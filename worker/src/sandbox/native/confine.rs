//! Landlock: what the mounts allow already, said once more, in another part of the kernel. Where a kernel knows only some
//! of it, that is what is used.

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetError, Scope,
};
use rustix::io::Errno;

use super::message::{Failure, failed};

const NEWEST: ABI = ABI::V6;

/// Read and start everything, write to scratch and to devices; no sockets but within the sandbox, no signals out of it.
pub fn rules() -> Result<RulesetCreated, Failure> {
    let made = || -> Result<RulesetCreated, RulesetError> {
        Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(NEWEST))?
            .handle_access(AccessNet::from_all(NEWEST))?
            .scope(Scope::from_all(NEWEST))?
            .create()
    };
    let rules = made().map_err(|error| failure("making rules for files", error))?;
    let rules = allow(rules, "/", AccessFs::from_read(NEWEST))?;
    let scratch = anything() & !AccessFs::Execute;
    let rules = allow(rules, "/tmp", scratch)?;
    let rules = allow(rules, "/dev/shm", scratch)?;
    allow(rules, "/dev", AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate)
}

/// For this process and all that it starts, for ever.
pub fn obey(rules: &RulesetCreated) -> Result<(), Failure> {
    let copy = rules.try_clone().map_err(failed("copying the rules for files"))?;
    copy.restrict_self().map(drop).map_err(|error| failure("obeying the rules for files", error))
}

/// A compiler may do in its workspace what it likes, but make devices.
pub fn allow_building(rules: RulesetCreated, workspace: &str) -> Result<RulesetCreated, Failure> {
    allow(rules, workspace, anything())
}

fn anything() -> BitFlags<AccessFs> {
    AccessFs::from_all(NEWEST) & !(AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev)
}

fn allow(rules: RulesetCreated, path: &str, access: BitFlags<AccessFs>) -> Result<RulesetCreated, Failure> {
    let opened = PathFd::new(path).map_err(|_| Failure::new("opening a path for its rule", Errno::NOENT))?;
    rules.add_rule(PathBeneath::new(opened, access)).map_err(|error| failure("adding a rule for files", error))
}

/// The library's errors know no number, but the last one that the kernel gave is theirs.
fn failure(doing: &'static str, _error: RulesetError) -> Failure {
    Failure::new(doing, Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL))
}
