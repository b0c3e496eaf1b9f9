//! `tribunal submit`: put a request on the queue.

use tribunal_shared::config::Settings;
use tribunal_shared::store::State;

use super::args::{Submit, Wait};
use super::exit::{Exit, Failure, note};
use super::signals::Signals;
use super::{connect, load, output, result, trace};

pub async fn run(arguments: Submit, settings: &Settings) -> Result<Exit, Failure> {
    let request = match load::load(&arguments.request, settings) {
        Ok(request) => request,
        Err(error) => return result::not_loaded(error, arguments.request.id, arguments.json),
    };
    let client = connect::client(settings).await?.with_traceparent(trace::parent());
    let named = request.request_id.clone();
    let id = match client.submit(request).await {
        Ok(id) => id,
        Err(error) => return result::refused(error, named, arguments.json),
    };
    if named.is_some()
        && let Ok(State::Done(result)) = client.poll(&id).await
    {
        note(&format!(
            "{id} has a result already ({}): if that is not what you want, choose another id",
            result.status.as_str()
        ));
    }
    let wait = arguments.wait.wait();
    if wait == Wait::No {
        output::print(&format!("{id}\n"))?;
        return Ok(Exit::Success);
    }
    Signals::or_later(&id, async {
        // Not on stdout, which is for the result; but whoever does not wait to the end needs it.
        note(&format!("submitted as {id}"));
        result::wait_and_show(&client, &id, wait, arguments.json).await
    })
    .await
}
