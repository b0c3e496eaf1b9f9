//! Switches one defence of the native sandbox off at a time. Each loss must show, or the suite could not see it.

use crate::report::Report;

pub async fn run(_only: Option<&str>) -> Report {
    Report::new()
}
