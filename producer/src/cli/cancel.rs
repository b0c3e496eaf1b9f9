//! `tribunal cancel`: end requests, wherever in the fleet they are.

use serde::Serialize;
use tribunal_shared::config::Settings;
use tribunal_shared::request::RequestId;
use tribunal_shared::result::ExecutionStatus;

use super::args::Cancel;
use super::exit::{Exit, Failure};
use super::{connect, output, result};
use crate::client::{Cancellation, Client};

#[derive(Serialize)]
struct Outcome<'a> {
    request_id: &'a RequestId,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<ExecutionStatus>,
}

pub async fn run(arguments: Cancel, settings: &Settings) -> Result<Exit, Failure> {
    let client = connect::reader(settings).await?;
    if !arguments.json {
        return each(&client, &arguments.ids, |outcome| output::print(&format!("{}\n", line(&outcome)))).await;
    }
    let mut outcomes = Vec::new();
    let exit = each(&client, &arguments.ids, |outcome| {
        outcomes.push(outcome);
        Ok(())
    })
    .await;
    // Also when the store went away half-way: what was done is done.
    output::print_json(&outcomes)?;
    exit
}

async fn each<'a>(
    client: &Client,
    ids: &'a [RequestId],
    mut tell: impl FnMut(Outcome<'a>) -> Result<(), Failure>,
) -> Result<Exit, Failure> {
    let mut gravest = Exit::Success;
    for id in ids {
        let (outcome, status, exit) = match client.cancel(id).await? {
            Cancellation::Cancelled => ("cancelled", None, Exit::Success),
            Cancellation::Already => ("already_cancelled", None, Exit::Success),
            Cancellation::TooLate(result) => ("already_judged", Some(result.status), Exit::NotAllPassed),
            Cancellation::Unknown => {
                result::unknown(id).print();
                ("unknown", None, Exit::BadRequest)
            }
        };
        gravest = gravest.max(exit);
        tell(Outcome { request_id: id, outcome, status })?;
    }
    Ok(gravest)
}

fn line(Outcome { request_id, outcome, status }: &Outcome<'_>) -> String {
    let outcome = outcome.replace('_', " ");
    match status {
        Some(status) => format!("{request_id}: {outcome}, {}", status.as_str()),
        None => format!("{request_id}: {outcome}"),
    }
}
