use std::time::Duration;

use super::*;

#[test]
fn the_definition_is_sound() {
    use clap::CommandFactory as _;
    Arguments::command().debug_assert();
}

fn submit(words: &[&str]) -> Submit {
    let words = ["tribunal", "submit", "x"].iter().chain(words);
    match Arguments::try_parse_from(words).unwrap().command {
        Command::Submit(submit) => submit,
        other => panic!("{other:?}"),
    }
}

#[test]
fn wait_takes_seconds_only_after_an_equals_sign() {
    assert_eq!(submit(&[]).wait.wait(), Wait::No);
    assert_eq!(submit(&["--wait"]).wait.wait(), Wait::Forever);
    assert_eq!(submit(&["--wait=7"]).wait.wait(), Wait::For(Duration::from_secs(7)));
    assert!(Arguments::try_parse_from(["tribunal", "submit", "x", "--wait", "7"]).is_err());
    assert!(Arguments::try_parse_from(["tribunal", "submit", "x", "--wait=0"]).is_err());
}

#[test]
fn seconds_after_a_space_are_told_to_come_after_an_equals_sign() {
    let error = |words: &[&str]| {
        let words: Vec<_> = ["tribunal", "result", "x"].iter().chain(words).map(OsString::from).collect();
        with_hint(Arguments::try_parse_from(&words).unwrap_err(), &words).to_string()
    };
    assert!(error(&["--wait", "7"]).contains("write '--wait=7'"), "{}", error(&["--wait", "7"]));
    assert!(!error(&["--wait", "--jsn"]).contains("--wait="));
    assert!(!error(&["7"]).contains("--wait="));
    let words = ["tribunal", "fleet", "--watch", "5"].map(OsString::from);
    let error = with_hint(Arguments::try_parse_from(&words).unwrap_err(), &words).to_string();
    assert!(error.contains("write '--watch=5'"), "{error}");
}

#[test]
fn json_of_a_submission_needs_a_result_to_print() {
    assert!(submit(&["--wait", "--json"]).json);
    assert!(Arguments::try_parse_from(["tribunal", "submit", "x", "--json"]).is_err());
}

#[test]
fn settings_may_stand_before_and_after_the_command() {
    for words in [["--queue-url", "memory://", "doctor"], ["doctor", "--queue-url", "memory://"]] {
        let arguments = Arguments::try_parse_from(["tribunal"].iter().chain(&words)).unwrap();
        assert_eq!(arguments.settings.queue_url.as_deref(), Some("memory://"));
    }
}

fn fleet(words: &[&str]) -> Option<Duration> {
    match Arguments::try_parse_from(["tribunal", "fleet"].iter().chain(words)).unwrap().command {
        Command::Fleet(fleet) => fleet.every(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_fleet_is_shown_once_or_every_so_often() {
    assert_eq!(fleet(&[]), None);
    assert_eq!(fleet(&["--watch"]), Some(Duration::from_secs(2)));
    assert_eq!(fleet(&["--watch=7"]), Some(Duration::from_secs(7)));
    assert!(Arguments::try_parse_from(["tribunal", "fleet", "--watch=0"]).is_err());
}

#[test]
fn dead_letters_are_chosen_by_key_or_all_but_not_both_and_not_neither() {
    for fate in ["requeue", "drop"] {
        let parsed = |words: &[&str]| Arguments::try_parse_from(["tribunal", "dead", fate].iter().chain(words)).is_ok();
        assert!(parsed(&["a", "b"]) && parsed(&["--all"]));
        assert!(!parsed(&[]) && !parsed(&["a", "--all"]));
    }
}
