//! `tribunal result`: what became of a request. Also how the other commands wait for a result and show it.

use serde::Serialize;
use tribunal_shared::config::Settings;
use tribunal_shared::request::RequestId;
use tribunal_shared::result::ExecutionResult;
use tribunal_shared::store::State;

use super::args::{ShowResult, Wait};
use super::exit::{Exit, Failure};
use super::load::LoadError;
use super::progress::Progress;
use super::signals::Signals;
use super::{connect, output, render};
use crate::client::{Client, SubmitError};

pub async fn run(arguments: ShowResult, settings: &Settings) -> Result<Exit, Failure> {
    let ShowResult { id, wait, json } = arguments;
    let client = connect::reader(settings).await?;
    match (wait.wait(), client.poll(&id).await?) {
        (_, State::Done(result)) => show(&result, json),
        // With a limit it is safe to wait for what may never come.
        (wait @ Wait::For(_), _) => Signals::or_later(&id, wait_and_show(&client, &id, wait, json)).await,
        (_, State::Unknown) => Err(show_unknown(&id, json)?),
        (wait @ Wait::Forever, _) => Signals::or_later(&id, wait_and_show(&client, &id, wait, json)).await,
        (Wait::No, State::Queued) => show_state(&id, "queued", json),
        (Wait::No, State::Running) => show_state(&id, "running", json),
    }
}

pub async fn wait_and_show(client: &Client, id: &RequestId, wait: Wait, json: bool) -> Result<Exit, Failure> {
    let patience = match wait {
        Wait::For(patience) => Some(patience),
        Wait::Forever | Wait::No => None,
    };
    let mut progress = Progress::start("waiting");
    let result = client.follow(id, patience, |event| progress.show(event)).await;
    drop(progress);
    match (result?, patience) {
        (Some(result), _) => show(&result, json),
        (None, patience) => {
            let state = match client.poll(id).await? {
                // In the very last moment.
                State::Done(result) => return show(&result, json),
                State::Unknown => return Err(show_unknown(id, json)?),
                State::Queued => "queued",
                State::Running => "running",
            };
            if json {
                print_state(id, state)?;
            }
            let seconds = patience.unwrap_or_default().as_secs();
            Err(Failure::NoResultYet(format!(
                "no result within {seconds} s: {id} is {state}. Ask again with `tribunal result {id} --wait`{}",
                if state == "queued" { ". Does a worker run?" } else { "" }
            )))
        }
    }
}

pub fn show(result: &ExecutionResult, json: bool) -> Result<Exit, Failure> {
    if json {
        output::print_json(result)?;
    } else {
        output::print(&render::result(result, output::colours()))?;
    }
    Ok(Exit::of(result))
}

/// A request that was not accepted. Programs get the result that the fleet would give it, people get the problems.
pub fn refused(error: SubmitError, named: Option<String>, json: bool) -> Result<Exit, Failure> {
    if let (SubmitError::Rejected(rejection), true) = (&error, json) {
        print_rejected(ExecutionResult::rejected(&RequestId::generate(), rejection), named)?;
    }
    Err(error.into())
}

/// The same for what could not even be read as a request.
pub fn not_loaded(error: LoadError, named: Option<String>, json: bool) -> Result<Exit, Failure> {
    if let (LoadError::Malformed { problem, .. }, true) = (&error, json) {
        let id = problem.request_id.clone().unwrap_or_else(RequestId::generate);
        print_rejected(ExecutionResult::invalid(&id, &problem.to_string()), named)?;
    }
    Err(error.into())
}

/// Under the id that it was given, which may be what is wrong with it.
fn print_rejected(mut result: ExecutionResult, named: Option<String>) -> Result<(), Failure> {
    result.request_id = named.unwrap_or(result.request_id);
    output::print_json(&result)
}

pub fn unknown(id: &RequestId) -> Failure {
    Failure::Usage(format!(
        "{id} is unknown: it was never submitted to this store, or its result has expired (store.result_ttl_s). \
         What was enqueued without `tribunal submit` is unknown until a worker takes it: wait with \
         `tribunal result {id} --wait=SECONDS`"
    ))
}

fn show_unknown(id: &RequestId, json: bool) -> Result<Failure, Failure> {
    if json {
        print_state(id, "unknown")?;
    }
    Ok(unknown(id))
}

fn show_state(id: &RequestId, state: &'static str, json: bool) -> Result<Exit, Failure> {
    if json {
        print_state(id, state)?;
    } else {
        output::print(&format!("{state}\n"))?;
    }
    Ok(Exit::NoResultYet)
}

/// What stands in a result's place: it has a `state` where a result has a `status`.
fn print_state(id: &RequestId, state: &'static str) -> Result<(), Failure> {
    #[derive(Serialize)]
    struct Pending<'a> {
        request_id: &'a str,
        state: &'static str,
    }
    output::print_json(&Pending { request_id: id.as_str(), state })
}
