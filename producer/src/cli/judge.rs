//! `tribunal judge`: the whole road of a request within this process.

use tribunal_shared::config::Settings;

use super::args::Judge;
use super::embedded::Embedded;
use super::exit::{Exit, Failure};
use super::progress::Progress;
use super::{load, result, trace};

pub async fn run(arguments: Judge, settings: Settings) -> Result<Exit, Failure> {
    let request = match load::load(&arguments.request, &settings) {
        Ok(request) => request,
        Err(error) => return result::not_loaded(error, arguments.request.id, arguments.json),
    };
    let (named, language) = (request.request_id.clone(), settings.languages().get(&request.language));
    let embedded = Embedded::new(settings);
    let client = embedded.client().with_traceparent(trace::parent());
    // Before the sandbox is started: a bad request needs none.
    let id = match client.submit(request).await {
        Ok(id) => id,
        Err(error) => return result::refused(error, named, arguments.json),
    };
    let Some(language) = language else {
        return Err(Failure::Infrastructure("an accepted request has no language".into()));
    };
    let judged = async {
        let mut progress = Progress::start("starting");
        Ok(client.follow(&id, None, |event| progress.show(event)).await?)
    };
    match embedded.work(&language, judged).await? {
        Some(result) => result::show(&result, arguments.json),
        None => Err(Failure::Infrastructure("the wait ended without a result".into())),
    }
}
