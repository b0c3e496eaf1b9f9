//! `tribunal watch`: follow a request, a line for every event.

use futures_util::StreamExt as _;
use tribunal_shared::config::Settings;
use tribunal_shared::store::{Event, State};

use super::args::Watch;
use super::exit::{Exit, Failure};
use super::signals::Signals;
use super::{connect, escape, output, render, result};

const LONGEST_NAME: usize = 60;
const LONGEST_SUMMARY: usize = 300;

pub async fn run(Watch { id }: Watch, settings: &Settings) -> Result<Exit, Failure> {
    let client = connect::reader(settings).await?;
    if client.poll(&id).await? == State::Unknown {
        return Err(result::unknown(&id));
    }
    Signals::or_later(&id, async {
        let mut events = client.events(&id, None).await?;
        let mut lines = Lines::default();
        while let Some(event) = events.next().await {
            output::print(&format!("{}\n", lines.line(&event?.event)))?;
        }
        Ok(())
    })
    .await?;
    match client.poll(&id).await? {
        State::Done(result) => Ok(Exit::of(&result)),
        _ => Err(result::unknown(&id)),
    }
}

/// Counts the tests: they run side by side, and their own numbers come in any order.
#[derive(Default)]
struct Lines {
    tests: usize,
}

impl Lines {
    fn line(&mut self, event: &Event) -> String {
        match event {
            Event::Queued => "queued".into(),
            Event::Running { worker, attempt } => {
                self.tests = 0;
                let worker = escape::first_line(worker, LONGEST_NAME);
                match attempt {
                    1 => format!("running on {worker}"),
                    _ => format!("running again on {worker}, from the beginning (attempt {attempt})"),
                }
            }
            Event::Compiled { time_ms } => format!("compiled in {time_ms} ms"),
            Event::Test { total, test_id, status, execution_time_ms, memory_used_kb, .. } => {
                self.tests += 1;
                let id = escape::first_line(test_id, LONGEST_NAME);
                let memory = render::memory(*memory_used_kb);
                format!("{}/{total} {id} {} {execution_time_ms} ms {memory}", self.tests, status.as_str())
            }
            Event::GivenBack { worker, reason } => {
                let worker = escape::first_line(worker, LONGEST_NAME);
                format!("given back by {worker}: {}", escape::first_line(reason, LONGEST_SUMMARY))
            }
            Event::Done { summary, .. } => escape::first_line(summary, LONGEST_SUMMARY),
        }
    }
}

#[cfg(test)]
mod tests {
    use tribunal_shared::result::{ExecutionStatus, TestStatus};

    use super::*;

    fn test(index: usize) -> Event {
        let (test_id, status) = ("t\x1b".into(), TestStatus::Passed);
        Event::Test { index, total: 2, test_id, status, execution_time_ms: 5, memory_used_kb: 2048 }
    }

    #[test]
    fn every_event_is_a_line_and_a_lost_worker_starts_the_count_anew() {
        let running = |attempt| Event::Running { worker: "w".into(), attempt };
        let done = Event::Done { status: ExecutionStatus::AllPassed, summary: "fine\nforged".into() };
        let events =
            [Event::Queued, running(1), test(1), running(2), Event::Compiled { time_ms: 7 }, test(1), test(0), done];
        let mut lines = Lines::default();
        assert_eq!(
            events.iter().map(|event| lines.line(event)).collect::<Vec<_>>(),
            [
                "queued",
                "running on w",
                "1/2 t\\u{1b} passed 5 ms 2.0 MB",
                "running again on w, from the beginning (attempt 2)",
                "compiled in 7 ms",
                "1/2 t\\u{1b} passed 5 ms 2.0 MB",
                "2/2 t\\u{1b} passed 5 ms 2.0 MB",
                "fine",
            ]
        );
    }
}
