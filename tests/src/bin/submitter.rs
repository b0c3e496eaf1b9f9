//! Submits as many requests as it is told, made one by one as they are taken, and says how much memory that took at most.
//! For the end-to-end tests: `submitter SETTINGS COUNT`.

use std::path::Path;

use futures_util::StreamExt;
use tribunal_producer::client::Client;
use tribunal_shared::config::Settings;
use tribunal_shared::{queue, store};
use tribunal_tests::most_resident_kb;
use tribunal_tests::requests::request;

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [settings, count] = arguments.as_slice() else { panic!("usage: submitter SETTINGS COUNT") };
    let settings = Settings::load(Some(Path::new(settings))).expect("valid settings");
    let count: usize = count.parse().expect("a number");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let accepted = runtime.block_on(async {
        let broker = queue::connect(&settings.queue).expect("a queue");
        let store = store::connect(&settings.store).await.expect("a store");
        let client = Client::new(broker, store, &settings);
        let requests = (0..count).map(|number| {
            let number = number.to_string();
            request("bash", "cat", &[(&number, &number)])
        });
        let outcomes = client.submit_batch(requests);
        outcomes.map(|outcome| outcome.expect("the request is accepted")).count().await
    });
    println!("{accepted} {}", most_resident_kb(std::process::id()));
}
