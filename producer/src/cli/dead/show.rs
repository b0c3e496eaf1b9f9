//! `tribunal dead show`: one dead letter.

use std::fmt::Write as _;

use serde::Serialize;
use tribunal_shared::config::Settings;

use super::super::args::ShowDead;
use super::super::exit::{Exit, Failure};
use super::super::{connect, escape, moment, output, render};
use super::letter::{Content, Letter};

const LONGEST_PROBLEM: usize = 300;
const LONGEST_NAME: usize = 60;

#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    letter: Letter<'a>,
    /// Letters under this key. They are requeued as one.
    copies: usize,
}

pub async fn run(arguments: ShowDead, settings: &Settings) -> Result<Exit, Failure> {
    let letters = connect::queue_only(settings)?.dead_letters(usize::MAX).await?;
    let mut meant = letters.iter().filter(|letter| super::is_meant(letter, &arguments.key));
    let Some(first) = meant.next() else { return Err(super::not_there(&arguments.key)) };
    let copies = 1 + meant.count();
    let make = if arguments.code { Letter::with_code } else { Letter::new };
    let shown = Shown { letter: make(first, &settings.limits), copies };
    if arguments.json {
        output::print_json(&shown)?;
    } else {
        output::print(&text(&shown))?;
    }
    Ok(Exit::Success)
}

fn text(Shown { letter, copies }: &Shown<'_>) -> String {
    let Letter { key, dead, content, code } = letter;
    let mut text = String::new();
    let mut line = |title: &str, said: &str| {
        let _ = writeln!(text, "{title:9} {said}");
    };
    line("id", &escape::line(key));
    line("reason", escape::block(&dead.reason).replace('\n', "\n          ").trim_end());
    if dead.died_at_ms == 0 {
        line("died", "nobody knows when: the broker gave it up by itself");
    } else {
        line("died", &format!("{}, {}", moment::utc(dead.died_at_ms), moment::ago(dead.died_at_ms)));
    }
    if let Some(claimed) = content.claimed_id.as_ref().filter(|claimed| *claimed != key) {
        line("claims", &format!("the id {}", escape::first_line(claimed, LONGEST_NAME)));
    }
    line("queue", &escape::line(&dead.queue));
    line("request", &told(content));
    if let Some(kind) = &dead.kind {
        line("kind", &escape::first_line(kind, LONGEST_NAME));
    }
    if let Some(trace) = &dead.traceparent {
        line("trace", &escape::first_line(trace, LONGEST_NAME));
    }
    if *copies > 1 {
        line("copies", &format!("{copies}; this is the oldest"));
    }
    match dead.attempts.as_slice() {
        [] => line("attempts", "none is known"),
        attempts => text.push_str(&render::attempts(attempts)),
    }
    if let Some(code) = code {
        let _ = writeln!(text, "\n{}", escape::block(code).trim_end_matches('\n'));
    }
    text
}

fn told(Content { bytes, language, code_bytes, tests, problem, .. }: &Content) -> String {
    match (problem, language) {
        (Some(problem), _) => {
            format!("none, but {bytes} bytes: {}", escape::first_line(problem, LONGEST_PROBLEM))
        }
        (None, language) => format!(
            "{}, {} bytes of code, {} tests; {bytes} bytes in all",
            escape::first_line(language.as_deref().unwrap_or_default(), LONGEST_NAME),
            code_bytes.unwrap_or_default(),
            tests.unwrap_or_default()
        ),
    }
}

#[cfg(test)]
mod tests {
    use tribunal_shared::queue::DeadLetter;
    use tribunal_shared::result::Attempt;

    use super::*;

    fn dead(body: &str) -> DeadLetter {
        DeadLetter {
            id: Some("a\x1b[2J".into()),
            body: body.into(),
            kind: None,
            queue: "t.requests".into(),
            reason: "no daemon\nid        forged".into(),
            attempts: vec![Attempt { attempt: 1, worker: "w\x1b".into(), end: "its worker died".into() }],
            died_at_ms: 0,
            traceparent: None,
        }
    }

    #[test]
    fn a_letter_says_why_it_died_and_what_it_asks_for() {
        let body = r#"{"code": "print(1)\u001b", "language": "python", "test_cases": []}"#;
        let (dead, limits) = (dead(body), Settings::defaults().limits);
        let without = text(&Shown { letter: Letter::new(&dead, &limits), copies: 2 });
        let expected = "\
id        a\\u{1b}[2J
reason    no daemon
          id        forged
died      nobody knows when: the broker gave it up by itself
queue     t.requests
request   python, 9 bytes of code, 0 tests; 66 bytes in all
copies    2; this is the oldest
attempts
  1 on w\\u{1b}: its worker died
";
        assert_eq!(without, expected);
        let with = text(&Shown { letter: Letter::with_code(&dead, &limits), copies: 2 });
        assert_eq!(with, format!("{expected}\nprint(1)\\u{{1b}}\n"));
    }

    #[test]
    fn an_id_that_is_anothers_is_shown() {
        let limits = Settings::defaults().limits;
        let body = r#"{"request_id": "x\u001b", "code": "", "language": "python", "test_cases": []}"#;
        let dead = DeadLetter { id: None, ..dead(body) };
        let shown = text(&Shown { letter: Letter::new(&dead, &limits), copies: 1 });
        assert!(shown.contains("\nclaims    the id x\\u{1b}\n") && shown.starts_with("id        body-"), "{shown}");
    }

    #[test]
    fn what_is_no_request_says_so() {
        let (dead, limits) = (dead("{}\x1b"), Settings::defaults().limits);
        let shown = text(&Shown { letter: Letter::with_code(&dead, &limits), copies: 1 });
        assert!(shown.contains("request   none, but 3 bytes: "), "{shown}");
        assert!(shown.ends_with("\n{}\\u{1b}\n"), "{shown}");
    }
}
