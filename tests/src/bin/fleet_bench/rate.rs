//! How many requests a second are taken in, beside a loop that only publishes the same messages to the same queue.

use std::time::Instant;

use futures_util::StreamExt;
use tribunal_producer::client::Client;
use tribunal_shared::request::ExecutionRequest;
use tribunal_tests::requests::request;
use tribunal_tests::{Fleet, Ground};

use crate::bare::{Bare, Message};
use crate::{Bound, Promise, median};

const REQUESTS: usize = 10_000;
const ROUNDS: usize = 7;
const AT_LEAST: f64 = 0.8;

/// About a kilobyte, as they come from a generator of candidates.
const PROGRAM: &str = "\
import sys

def solve(numbers):
    # the longest run of numbers that do not fall
    best = length = 0
    last = None
    for number in numbers:
        length = length + 1 if last is None or number >= last else 1
        best = max(best, length)
        last = number
    return best

def main():
    for line in sys.stdin:
        numbers = [int(word) for word in line.split()]
        print(solve(numbers))

if __name__ == '__main__':
    main()
";
const TESTS: [(&str, &str); 4] =
    [("1 2 3 4 5 6 7 8", "8"), ("8 7 6 5 4 3 2 1", "1"), ("1 1 2 0 5 5 5 9 3", "5"), ("42", "1")];

pub async fn measure() -> Vec<Promise> {
    let fleet = Fleet::on(Ground::Host, "store.result_ttl_s = 30\n").await;
    fleet.client.submit(new_request(true)).await.expect("the request is accepted");
    let bare = Bare::like(&fleet).await;
    // The caches.
    rounds(&fleet.client, &bare, false, 1).await;

    println!("requests taken in, {REQUESTS} in a round, {ROUNDS} rounds in turns");
    let mut promises = Vec::new();
    for (ids, named) in [("ids made up here", false), ("ids of the caller", true)] {
        let rates = rounds(&fleet.client, &bare, named, ROUNDS).await;
        println!("  bare publishing                      {:8.0} /s", median(rates.iter().map(|(_, bare)| *bare)));
        println!("  submit_batch, {ids:<22} {:8.0} /s", median(rates.iter().map(|(ours, _)| *ours)));
        // Of each round by itself: its two halves see the same machine.
        let value = median(rates.iter().map(|(ours, bare)| ours / bare));
        promises.push(Promise {
            what: format!("rate of bare publishing, {ids}"),
            value,
            bound: Bound::AtLeast(AT_LEAST),
        });
    }
    promises
}

/// Requests a second, ours and bare, of each round.
async fn rounds(client: &Client, bare: &Bare, named: bool, count: usize) -> Vec<(f64, f64)> {
    let mut rates = Vec::new();
    for round in 0..count {
        let (ours, theirs);
        // Whoever is second finds the other's traces: each is second in turn.
        if round % 2 == 0 {
            ours = submitted(client, bare, named).await;
            theirs = published(bare).await;
        } else {
            theirs = published(bare).await;
            ours = submitted(client, bare, named).await;
        }
        rates.push((ours, theirs));
    }
    rates
}

async fn submitted(client: &Client, bare: &Bare, named: bool) -> f64 {
    let requests: Vec<_> = (0..REQUESTS).map(|_| new_request(named)).collect();
    let began = Instant::now();
    let mut outcomes = std::pin::pin!(client.submit_batch(requests));
    while let Some(outcome) = outcomes.next().await {
        outcome.expect("the request is accepted");
    }
    let rate = REQUESTS as f64 / began.elapsed().as_secs_f64();
    assert_eq!(bare.purge().await as usize, REQUESTS, "every request is a message");
    rate
}

async fn published(bare: &Bare) -> f64 {
    let messages: Vec<_> = (0..REQUESTS).map(|_| message(&new_request(true))).collect();
    let began = Instant::now();
    bare.send_all(&messages).await;
    let rate = REQUESTS as f64 / began.elapsed().as_secs_f64();
    assert_eq!(bare.purge().await as usize, REQUESTS, "every message is there");
    rate
}

fn new_request(named: bool) -> ExecutionRequest {
    let mut request = request("python", PROGRAM, &TESTS);
    request.request_id = request.request_id.filter(|_| named);
    request
}

fn message(request: &ExecutionRequest) -> Message {
    let body = serde_json::to_vec(request).expect("a request has only string keys");
    Message { id: request.request_id.clone().expect("a request of ours has an id"), body }
}
