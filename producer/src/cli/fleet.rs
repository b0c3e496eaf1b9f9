//! `tribunal fleet`: the workers, and what waits for them.

use std::time::Duration;

use comfy_table::{Cell, CellAlignment, Color, Row};
use serde::Serialize;
use tokio::time::MissedTickBehavior;
use tribunal_shared::config::Settings;
use tribunal_shared::queue::Depth;
use tribunal_shared::store::WorkerStatus;

use super::args::Fleet;
use super::exit::{Exit, Failure};
use super::signals::Signals;
use super::{connect, escape, moment, output, render};
use crate::client::Client;

const LONGEST_NAME: usize = 60;
const LONGEST_REASON: usize = 200;

/// What is seen in one look.
#[derive(Serialize)]
struct View {
    workers: Vec<WorkerStatus>,
    queues: Vec<Lanes>,
    /// Over all queues.
    waiting: u64,
    dead: u64,
    parked: u64,
    unanswered: u64,
}

/// What waits in a queue, by priority.
#[derive(Debug, Default, PartialEq, Serialize)]
struct Lanes {
    queue: String,
    high: u64,
    normal: u64,
    low: u64,
}

pub async fn run(arguments: Fleet, settings: &Settings) -> Result<Exit, Failure> {
    let client = connect::client(settings).await?;
    let Some(every) = arguments.every() else {
        let view = View::of(&client, &settings.queue.name).await?;
        if arguments.json {
            output::print_json(&view)?;
        } else {
            output::print(&view.text(output::colours()))?;
        }
        return Ok(Exit::Success);
    };
    match Signals::listen()?.or(watch(&client, &settings.queue.name, every, arguments.json)).await {
        // There is no other way to end it.
        Err(Failure::Interrupted) => Ok(Exit::Success),
        ended => ended,
    }
}

async fn watch(client: &Client, queue: &str, every: Duration, json: bool) -> Result<Exit, Failure> {
    let mut rounds = tokio::time::interval(every);
    rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut seen = false;
    loop {
        rounds.tick().await;
        match View::of(client, queue).await {
            Ok(view) if json => output::print_json_line(&view)?,
            Ok(view) if output::is_screen() => output::redraw(&view.text(output::colours()))?,
            Ok(view) => output::print(&format!("{}\n", view.text(false)))?,
            // Who watches a fleet wants to see it come back.
            Err(failure) if seen => failure.print(),
            Err(failure) => return Err(failure),
        }
        seen = true;
    }
}

impl View {
    async fn of(client: &Client, queue: &str) -> Result<Self, Failure> {
        let (workers, depth) = tokio::join!(client.workers(), client.depth());
        let Depth { ready, dead, parked, unanswered, queues, .. } = depth?;
        // Other fleets may have the same store.
        let workers = workers?.into_iter().filter(|worker| worker.report.queue == queue).collect();
        Ok(Self { workers, queues: lanes(queues), waiting: ready, dead, parked, unanswered })
    }

    fn text(&self, colours: bool) -> String {
        let workers = match self.workers.as_slice() {
            [] => "no worker: what is submitted waits until one is started".to_owned(),
            workers => worker_table(workers, colours),
        };
        let hint = if self.dead > 0 { " (`tribunal dead ls`)" } else { "" };
        let unanswered = match self.unanswered {
            0 => String::new(),
            count => format!(", {count} that no worker could even answer (queue NAME.unanswered)"),
        };
        format!(
            "{workers}\n\n{}\n\n{} waiting, {} dead{hint}, {} parked for a newer version{unanswered}\n",
            queue_table(&self.queues, colours),
            self.waiting,
            self.dead,
            self.parked
        )
    }
}

/// A queue's name ends with its priority, unless that is normal.
fn lanes(queues: Vec<(String, u64)>) -> Vec<Lanes> {
    let mut lanes: Vec<Lanes> = Vec::new();
    for (name, waiting) in queues {
        let (queue, priority) = match name.rsplit_once('.') {
            Some((queue, priority @ ("high" | "low"))) => (queue, priority),
            _ => (name.as_str(), "normal"),
        };
        let known = lanes.iter().position(|lanes| lanes.queue == queue).unwrap_or_else(|| {
            lanes.push(Lanes { queue: queue.into(), ..Lanes::default() });
            lanes.len() - 1
        });
        let lane = match priority {
            "high" => &mut lanes[known].high,
            "low" => &mut lanes[known].low,
            _ => &mut lanes[known].normal,
        };
        *lane += waiting;
    }
    lanes
}

fn worker_table(workers: &[WorkerStatus], colours: bool) -> String {
    let header = ["WORKER", "HOST", "RUNNING", "SLOTS", "DONE", "HEARD", "VERSION", "LANGUAGES", "STATE"];
    let mut table = render::table(&header, colours);
    for numbers in table.column_iter_mut().skip(2).take(4) {
        numbers.set_cell_alignment(CellAlignment::Right);
    }
    for WorkerStatus { report, last_heartbeat_ms, alive } in workers {
        let name = |text: &str| escape::first_line(text, LONGEST_NAME);
        let languages = if report.languages.is_empty() { "all".into() } else { report.languages.join(",") };
        let languages = match report.missing.as_slice() {
            [] => name(&languages),
            missing => name(&format!("{languages} but {}", missing.join(","))),
        };
        let (state, colour) = match report.unready.as_str() {
            _ if !alive => ("lost".into(), Color::Red),
            "" => ("ready".into(), Color::Green),
            why => (format!("not ready: {}", escape::first_line(why, LONGEST_REASON)), Color::Yellow),
        };
        table.add_row(Row::from(vec![
            Cell::new(name(&report.name)),
            Cell::new(name(&report.host)),
            // What a lost one had runs elsewhere.
            Cell::new(if *alive { report.running.to_string() } else { "-".into() }),
            Cell::new(report.slots),
            Cell::new(report.done),
            Cell::new(format!("{} ago", moment::span(Duration::from_millis(*last_heartbeat_ms)))),
            Cell::new(name(&report.version)),
            Cell::new(languages),
            Cell::new(state).fg(colour),
        ]));
    }
    render::finished(&table)
}

fn queue_table(queues: &[Lanes], colours: bool) -> String {
    let mut table = render::table(&["QUEUE", "HIGH", "NORMAL", "LOW"], colours);
    for numbers in table.column_iter_mut().skip(1) {
        numbers.set_cell_alignment(CellAlignment::Right);
    }
    for Lanes { queue, high, normal, low } in queues {
        let queue = Cell::new(escape::first_line(queue, LONGEST_NAME));
        table.add_row(Row::from(vec![queue, Cell::new(high), Cell::new(normal), Cell::new(low)]));
    }
    render::finished(&table)
}

#[cfg(test)]
mod tests {
    use tribunal_shared::store::WorkerReport;

    use super::*;

    fn worker(name: &str, unready: &str, alive: bool) -> WorkerStatus {
        let report = WorkerReport {
            name: name.into(),
            host: "h".into(),
            version: "0.1.0".into(),
            queue: "t".into(),
            slots: 4,
            running: 2,
            done: 1234,
            languages: Vec::new(),
            missing: Vec::new(),
            unready: unready.into(),
        };
        WorkerStatus { report, last_heartbeat_ms: 300, alive }
    }

    #[test]
    fn lanes_of_a_queue_stand_together() {
        let queues = [("t.requests.high", 1), ("t.requests", 2), ("t.requests.low", 3), ("t.go.requests", 4)];
        let queues = queues.map(|(name, waiting)| (name.to_owned(), waiting)).to_vec();
        let [first, second] = &lanes(queues)[..] else { panic!("two queues") };
        assert_eq!(*first, Lanes { queue: "t.requests".into(), high: 1, normal: 2, low: 3 });
        assert_eq!(*second, Lanes { queue: "t.go.requests".into(), normal: 4, ..Lanes::default() });
    }

    #[test]
    fn workers_and_queues_are_tables_and_the_rest_a_line() {
        let mut bound = worker("b", "no\x1b[2J daemon\nforged", true);
        bound.report.languages = vec!["go".into(), "c".into()];
        bound.report.missing = vec!["c".into()];
        let view = View {
            workers: vec![worker("a", "", true), bound, worker("c", "", false)],
            queues: lanes(vec![("t.requests".into(), 3)]),
            waiting: 3,
            dead: 1,
            parked: 0,
            unanswered: 2,
        };
        let expected = "\
WORKER  HOST  RUNNING  SLOTS  DONE      HEARD  VERSION  LANGUAGES   STATE
a       h           2      4  1234  0.3 s ago  0.1.0    all         ready
b       h           2      4  1234  0.3 s ago  0.1.0    go,c but c  not ready: no\\u{1b}[2J daemon
c       h           -      4  1234  0.3 s ago  0.1.0    all         lost

QUEUE       HIGH  NORMAL  LOW
t.requests     0       3    0

3 waiting, 1 dead (`tribunal dead ls`), 0 parked for a newer version, 2 that no worker could even answer (queue NAME.unanswered)
";
        assert_eq!(view.text(false), expected);
    }

    #[test]
    fn a_fleet_without_workers_says_so() {
        let view = View { workers: Vec::new(), queues: Vec::new(), waiting: 0, dead: 0, parked: 0, unanswered: 0 };
        assert!(view.text(false).starts_with("no worker: "));
    }
}
