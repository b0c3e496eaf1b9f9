//! What every store promises about claims, states and results.

use std::sync::Arc;

use tribunal_shared::config::StoreSettings;
use tribunal_shared::request::RequestId;
use tribunal_shared::store::{self, Claim, Lease, ResultStore, State, Take};

use crate::support::{soon, until};
use crate::{begin, digest, result};

pub type Store = Arc<dyn ResultStore>;

pub async fn connect(settings: &StoreSettings) -> Store {
    soon(store::connect(settings)).await.expect("the store can be reached")
}

/// What may happen to a request once it is claimed.
#[derive(Debug, Clone, Copy)]
enum Step {
    Confirm,
    Running,
    Put,
}

impl Step {
    async fn take(self, store: &Store, id: &RequestId) {
        match self {
            Self::Confirm => store.confirm(id, &digest("mine")).await.unwrap(),
            Self::Running => drop(begin(&**store, id).await),
            Self::Put => assert!(store.put(id, None, &result(id, "x")).await.unwrap()),
        }
    }
}

pub async fn a_claim_says_what_an_id_stands_for(settings: StoreSettings) {
    let store = connect(&settings).await;
    let id = RequestId::generate();
    assert_eq!(store.claim(&id, &digest("mine")).await.unwrap(), Claim::New);
    assert_eq!(store.claim(&id, &digest("mine")).await.unwrap(), Claim::Unconfirmed);
    assert_eq!(store.claim(&id, &digest("other")).await.unwrap(), Claim::Conflict);
    assert_eq!(store.claim(&id, &digest("mine")).await.unwrap(), Claim::Unconfirmed, "a conflict changes nothing");
    assert_eq!(store.claim(&RequestId::generate(), &digest("mine")).await.unwrap(), Claim::New);
}

pub async fn a_claim_is_accepted_in_whatever_order_the_rest_happens(settings: StoreSettings) {
    use Step::*;
    let store = connect(&settings).await;
    for steps in [
        [Confirm, Running, Put],
        [Confirm, Put, Running],
        [Running, Confirm, Put],
        [Running, Put, Confirm],
        [Put, Confirm, Running],
        [Put, Running, Confirm],
    ] {
        let id = RequestId::generate();
        assert_eq!(store.claim(&id, &digest("mine")).await.unwrap(), Claim::New);
        for step in steps {
            step.take(&store, &id).await;
            assert_eq!(store.claim(&id, &digest("mine")).await.unwrap(), Claim::Accepted, "{step:?} of {steps:?}");
            assert_eq!(store.claim(&id, &digest("other")).await.unwrap(), Claim::Conflict, "{step:?} of {steps:?}");
        }
    }
}

/// The claim was lost, with a server's memory or because another client makes none. Whoever brings a body first has it; but
/// nobody knows which body a result belongs to.
pub async fn an_id_that_was_used_without_a_claim_is_open_until_it_is_done(settings: StoreSettings) {
    let store = connect(&settings).await;
    for step in [Step::Confirm, Step::Running] {
        let id = RequestId::generate();
        step.take(&store, &id).await;
        let before = store.state(&id).await.unwrap();
        assert_eq!(store.claim(&id, &digest("mine")).await.unwrap(), Claim::Accepted, "{step:?}");
        assert_eq!(store.claim(&id, &digest("other")).await.unwrap(), Claim::Conflict, "{step:?}");
        assert_eq!(store.state(&id).await.unwrap(), before);
    }
    let id = RequestId::generate();
    Step::Put.take(&store, &id).await;
    assert_eq!(store.claim(&id, &digest("mine")).await.unwrap(), Claim::Conflict);
}

pub async fn many_are_claimed_and_confirmed_at_once(settings: StoreSettings) {
    let store = connect(&settings).await;
    let (known, other, new) = (RequestId::generate(), RequestId::generate(), RequestId::generate());
    store.claim(&known, &digest("mine")).await.unwrap();
    store.claim(&other, &digest("other")).await.unwrap();
    let mine = [&known, &other, &new, &new].map(|id| (id.clone(), digest("mine")));
    let claims = store.claim_all(&mine).await.unwrap();
    assert_eq!(claims, [Claim::Unconfirmed, Claim::Conflict, Claim::New, Claim::Unconfirmed]);
    let unclaimed = RequestId::generate();
    let confirmed = [&known, &new, &unclaimed].map(|id| (id.clone(), digest("mine")));
    store.confirm_all(&confirmed).await.unwrap();
    for (id, _) in &confirmed {
        assert_eq!(store.state(id).await.unwrap(), State::Queued);
        assert_eq!(store.claim(id, &digest("other")).await.unwrap(), Claim::Conflict, "confirmed is claimed");
    }
    assert_eq!(store.claim_all(&[]).await.unwrap(), []);
    store.confirm_all(&[]).await.unwrap();
}

pub async fn one_of_many_claims_is_the_first(settings: StoreSettings) {
    let store = connect(&settings).await;
    let id = RequestId::generate();
    let claims: Vec<_> = (0..32)
        .map(|_| {
            let (store, id) = (Arc::clone(&store), id.clone());
            tokio::spawn(async move { store.claim(&id, &digest("mine")).await.unwrap() })
        })
        .collect();
    let mut new = 0;
    for claim in claims {
        match soon(claim).await.unwrap() {
            Claim::New => new += 1,
            claim => assert_eq!(claim, Claim::Unconfirmed),
        }
    }
    assert_eq!(new, 1);
}

pub async fn a_released_claim_is_forgotten(settings: StoreSettings) {
    let store = connect(&settings).await;
    let id = RequestId::generate();
    store.release(&id).await.unwrap();
    assert_eq!(store.claim(&id, &digest("mine")).await.unwrap(), Claim::New, "nothing was there to release");
    store.release(&id).await.unwrap();
    assert_eq!(store.state(&id).await.unwrap(), State::Unknown);
    assert_eq!(store.claim(&id, &digest("other")).await.unwrap(), Claim::New);
}

pub async fn what_was_confirmed_or_begun_or_done_cannot_be_released(settings: StoreSettings) {
    let store = connect(&settings).await;
    for step in [Step::Confirm, Step::Running, Step::Put] {
        let id = RequestId::generate();
        store.claim(&id, &digest("mine")).await.unwrap();
        step.take(&store, &id).await;
        let before = store.state(&id).await.unwrap();
        store.release(&id).await.unwrap();
        assert_eq!(store.state(&id).await.unwrap(), before, "{step:?}");
        assert_eq!(store.claim(&id, &digest("mine")).await.unwrap(), Claim::Accepted, "{step:?}");
    }
}

pub async fn a_state_only_goes_forward(settings: StoreSettings) {
    let store = connect(&settings).await;
    let id = RequestId::generate();
    assert_eq!(store.state(&id).await.unwrap(), State::Unknown);
    store.claim(&id, &digest("mine")).await.unwrap();
    assert_eq!(store.state(&id).await.unwrap(), State::Unknown, "a claim alone is no promise");
    store.confirm(&id, &digest("mine")).await.unwrap();
    assert_eq!(store.state(&id).await.unwrap(), State::Queued);
    begin(&*store, &id).await;
    assert_eq!(store.state(&id).await.unwrap(), State::Running);
    store.confirm(&id, &digest("mine")).await.unwrap();
    assert_eq!(store.state(&id).await.unwrap(), State::Running, "a late confirmation");
    begin(&*store, &id).await;
    assert_eq!(store.state(&id).await.unwrap(), State::Running, "a second worker");
    store.put(&id, None, &result(&id, "x")).await.unwrap();
    assert_eq!(store.state(&id).await.unwrap(), State::Done(Box::new(result(&id, "x"))));
}

pub async fn the_first_result_wins(settings: StoreSettings) {
    let store = connect(&settings).await;
    let id = RequestId::generate();
    assert!(store.put(&id, None, &result(&id, "first")).await.unwrap());
    assert!(!store.put(&id, None, &result(&id, "second")).await.unwrap());
    assert!(!store.put(&id, None, &result(&id, "first")).await.unwrap(), "not even the same again");
    assert_eq!(store.state(&id).await.unwrap(), State::Done(Box::new(result(&id, "first"))));
}

pub async fn what_comes_after_the_result_is_ignored(settings: StoreSettings) {
    let store = connect(&settings).await;
    let id = RequestId::generate();
    store.claim(&id, &digest("mine")).await.unwrap();
    store.put(&id, None, &result(&id, "x")).await.unwrap();
    let lease = begin(&*store, &id).await;
    store.record(&id, &lease, &store::Event::Compiled { time_ms: 1 }).await.unwrap();
    store.give_back(&id, &lease, "late", store::Blame::Request).await.unwrap();
    store.confirm(&id, &digest("mine")).await.unwrap();
    store.release(&id).await.unwrap();
    assert_eq!(store.state(&id).await.unwrap(), State::Done(Box::new(result(&id, "x"))));
    assert_eq!(crate::following::all(&store, &id).await, [crate::done()]);
    crate::following::assert_nothing_after_done(&store, &id).await;
}

pub async fn of_many_results_at_once_one_wins(settings: StoreSettings) {
    let store = connect(&settings).await;
    let id = RequestId::generate();
    let writers: Vec<_> = (0..32)
        .map(|writer| {
            let (store, id) = (Arc::clone(&store), id.clone());
            tokio::spawn(async move { store.put(&id, None, &result(&id, &format!("of {writer}"))).await.unwrap() })
        })
        .collect();
    let mut winners = Vec::new();
    for (writer, task) in writers.into_iter().enumerate() {
        if soon(task).await.unwrap() {
            winners.push(writer);
        }
    }
    assert_eq!(winners.len(), 1, "{winners:?}");
    let won = result(&id, &format!("of {}", winners[0]));
    assert_eq!(store.state(&id).await.unwrap(), State::Done(Box::new(won)));
    // Had a loser appended a second end, one who resumes after the first would be given it.
    assert_eq!(crate::following::all(&store, &id).await, [crate::done()]);
    crate::following::assert_nothing_after_done(&store, &id).await;
}

pub async fn ids_that_look_alike_do_not_meet(settings: StoreSettings) {
    let store = connect(&settings).await;
    let base = RequestId::generate();
    let ids: Vec<RequestId> =
        ["", ":a", ":a:b", ".a", "-A", "_a", ":result"].map(|end| format!("{base}{end}").parse().unwrap()).into();
    for id in &ids {
        assert_eq!(store.claim(id, &digest(id.as_str())).await.unwrap(), Claim::New, "{id}");
        assert!(store.put(id, None, &result(id, id.as_str())).await.unwrap(), "{id}");
    }
    for id in &ids {
        assert_eq!(store.state(id).await.unwrap(), State::Done(Box::new(result(id, id.as_str()))));
    }
}

pub async fn any_text_is_kept(settings: StoreSettings) {
    let store = connect(&settings).await;
    for output in ["\0\u{1b}[31m\u{fffd}🦀\r\n\"\\", &"x".repeat(1024 * 1024)] {
        let id = RequestId::generate();
        store.put(&id, None, &result(&id, output)).await.unwrap();
        assert!(store.state(&id).await.unwrap() == State::Done(Box::new(result(&id, output))));
    }
}

pub async fn what_is_kept_expires(settings: StoreSettings) {
    let store = connect(&StoreSettings { result_ttl_s: 1, ..settings }).await;
    let (claimed, confirmed, begun, finished) =
        (RequestId::generate(), RequestId::generate(), RequestId::generate(), RequestId::generate());
    for id in [&claimed, &confirmed, &begun, &finished] {
        store.claim(id, &digest("mine")).await.unwrap();
    }
    Step::Confirm.take(&store, &confirmed).await;
    Step::Running.take(&store, &begun).await;
    Step::Put.take(&store, &finished).await;
    assert!(matches!(store.state(&finished).await.unwrap(), State::Done(_)));
    for id in [&confirmed, &begun, &finished] {
        until(async || store.state(id).await.unwrap(), |state| *state == State::Unknown).await;
    }
    for id in [&claimed, &confirmed, &begun, &finished] {
        // Not by claiming again and again, which would keep a claim alive.
        assert_eq!(store.claim(id, &digest("other")).await.unwrap(), Claim::New);
    }
}

pub async fn a_result_brings_its_claim_along(settings: StoreSettings) {
    let (store, id) = (connect(&settings).await, RequestId::generate());
    // As after the loss of everything that was known before.
    assert!(store.put(&id, Some(&digest("mine")), &result(&id, "x")).await.unwrap());
    assert_eq!(store.claim(&id, &digest("mine")).await.unwrap(), Claim::Accepted);
    assert_eq!(store.claim(&id, &digest("other")).await.unwrap(), Claim::Conflict);
    let taken = store.take(&id, &digest("mine"), &Lease::new("w"), 3).await.unwrap();
    assert_eq!(taken, Take::Done, "a second delivery is acked");
    // One that stands already is not changed by it.
    let id = RequestId::generate();
    store.claim(&id, &digest("mine")).await.unwrap();
    store.put(&id, Some(&digest("other")), &result(&id, "x")).await.unwrap();
    assert_eq!(store.claim(&id, &digest("mine")).await.unwrap(), Claim::Accepted);
}
