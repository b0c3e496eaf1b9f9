//! One suite of promises, kept by every store: `memory::…` and `redis::…`.
#![allow(clippy::unwrap_used)]

mod failures;
mod following;
mod keys;
mod leases;
mod promises;
mod server;
#[path = "../support/mod.rs"]
mod support;

use tribunal_shared::config::StoreSettings;
use tribunal_shared::request::{Digest, RequestId};
use tribunal_shared::result::{ExecutionResult, ExecutionStatus, TestResult, TestStatus};
use tribunal_shared::store::{Event, Lease, ResultStore, Take};

fn settings(url: impl Into<String>) -> StoreSettings {
    StoreSettings { url: url.into(), result_ttl_s: 60, allow_eviction: false }
}

/// What tells one body from another.
fn digest(code: &str) -> Digest {
    Digest::of(code.as_bytes())
}

/// A result that can be told from others by its output.
fn result(id: &RequestId, output: &str) -> ExecutionResult {
    let test = TestResult {
        test_id: "t".into(),
        status: TestStatus::Passed,
        actual_output: output.into(),
        expected_output: String::new(),
        execution_time_ms: 1,
        memory_used_kb: 2,
        error_message: None,
        cpu_time_ms: Some(3),
        exit_code: None,
        signal: None,
        stderr: None,
    };
    ExecutionResult::from_tests(id, vec![test], 4)
}

fn running(attempt: u32) -> Event {
    Event::Running { worker: "w".into(), attempt }
}

/// Another attempt of worker `w`, unless there is a result.
async fn begin(store: &dyn ResultStore, id: &RequestId) -> Lease {
    let lease = Lease::new("w");
    let taken = store.take(id, &digest("mine"), &lease, u32::MAX).await.unwrap();
    assert!(matches!(taken, Take::Begun { .. } | Take::Done), "{taken:?}");
    lease
}

fn done() -> Event {
    Event::Done { status: ExecutionStatus::AllPassed, summary: "All 1 test cases passed".into() }
}

macro_rules! contract {
    ($($module:ident::$promise:ident,)*) => {
        mod memory {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $promise() {
                super::$module::$promise(super::settings("memory://")).await;
            })*
        }

        mod redis {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $promise() {
                super::$module::$promise(super::settings(super::support::service("TEST_REDIS_URL"))).await;
            })*
        }
    };
}

contract! {
    promises::a_claim_says_what_an_id_stands_for,
    promises::a_claim_is_accepted_in_whatever_order_the_rest_happens,
    promises::an_id_that_was_used_without_a_claim_is_open_until_it_is_done,
    promises::one_of_many_claims_is_the_first,
    promises::a_released_claim_is_forgotten,
    promises::what_was_confirmed_or_begun_or_done_cannot_be_released,
    promises::a_state_only_goes_forward,
    promises::the_first_result_wins,
    promises::what_comes_after_the_result_is_ignored,
    promises::of_many_results_at_once_one_wins,
    promises::ids_that_look_alike_do_not_meet,
    promises::any_text_is_kept,
    promises::what_is_kept_expires,
    leases::every_attempt_is_counted_up_to_the_last,
    leases::taking_it_twice_with_one_lease_is_one_attempt,
    leases::what_a_living_worker_runs_is_not_taken_from_it,
    leases::what_a_living_worker_does_not_run_any_more_is_taken_from_it,
    leases::what_a_worker_gave_back_can_be_taken_at_once,
    leases::an_attempt_that_was_the_workers_fault_does_not_count,
    leases::a_worker_that_lost_its_lease_is_not_listened_to,
    leases::of_many_that_take_it_one_begins,
    leases::a_body_that_the_id_does_not_belong_to_is_not_begun,
    leases::history_tells_how_each_attempt_ended,
    leases::a_worker_hears_which_of_its_requests_are_done,
    leases::what_a_living_worker_runs_does_not_expire,
    leases::workers_are_listed_until_they_leave,
    leases::what_is_forgotten_starts_anew,
    promises::many_are_claimed_and_confirmed_at_once,
    promises::a_result_brings_its_claim_along,
    following::events_come_from_the_start_and_end_with_the_result,
    following::following_resumes_after_an_event,
    following::a_confirmation_is_one_event_however_often_it_is_repeated,
    following::who_follows_before_the_first_event_is_woken,
    following::a_follower_is_told_of_each_event_as_it_happens,
    following::a_follower_outlives_a_released_claim,
    following::who_resumes_after_it_was_forgotten_sees_what_comes_anew,
    following::two_hundred_follow_at_once,
    following::a_follower_that_leaves_is_not_missed,
}
