//! The end: what was promised is compared with what is there.

use std::collections::BTreeMap;
use std::fmt::Write;

use redis::AsyncCommands;
use redis::streams::StreamRangeReply;
use tribunal_shared::result::ExecutionResult;

use crate::cases::Verdict;
use crate::ledger::{Entry, Ledger, Totals};

/// How many of each kind are described.
const DESCRIBED: usize = 10;
const AT_A_TIME: usize = 200;

/// Broken promises, by kind, each with what is known about it.
#[derive(Default)]
pub struct Findings {
    lost: Vec<String>,
    twice: Vec<String>,
    differing: Vec<String>,
    pub pending: Vec<String>,
    pub left: Vec<String>,
}

/// What the store has about an id.
struct Kept {
    result: Option<Vec<u8>>,
    state: Option<String>,
    events: Vec<String>,
}

impl Findings {
    pub async fn compare(&mut self, store_url: &str, ledger: &Ledger) -> redis::RedisResult<()> {
        let mut connection = redis::Client::open(store_url)?.get_multiplexed_async_connection().await?;
        let entries: Vec<_> = ledger.entries().into_iter().collect();
        for batch in entries.chunks(AT_A_TIME) {
            for (id, entry) in batch {
                let kept = Kept {
                    result: connection.get(format!("tribunal:result:{id}")).await?,
                    state: connection.hget(format!("tribunal:request:{id}"), "state").await?,
                    events: events(connection.xrange_all(format!("tribunal:events:{id}")).await?),
                };
                self.compare_one(id, entry, &kept);
            }
        }
        Ok(())
    }

    fn compare_one(&mut self, id: &str, entry: &Entry, kept: &Kept) {
        let known = || describe(id, entry, kept);
        let Some(result) = &kept.result else {
            if entry.confirmed {
                self.lost.push(known());
            }
            return;
        };
        let ends = kept.events.iter().filter(|event| event.contains(r#""event":"done""#)).count();
        if ends != 1 || entry.first_seen.as_ref().is_some_and(|first| first != result) {
            self.twice.push(known());
        }
        let verdict = serde_json::from_slice::<ExecutionResult>(result).map(|result| Verdict::of(&result));
        if !verdict.is_ok_and(|verdict| verdict == entry.verdict) {
            self.differing.push(known());
        }
    }

    fn kinds(&self) -> [(&'static str, &[String]); 5] {
        [
            ("lost", &self.lost),
            ("with two results", &self.twice),
            ("differing verdicts", &self.differing),
            ("pending", &self.pending),
            ("left over", &self.left),
        ]
    }

    pub fn none(&self) -> bool {
        self.kinds().iter().all(|(_, found)| found.is_empty())
    }

    /// As they end the one line.
    pub fn counts(&self) -> String {
        self.kinds().map(|(kind, found)| format!("{} {kind}", thousands(found.len()))).join(", ")
    }

    /// The first of each kind.
    pub fn details(&self) -> String {
        let mut text = String::new();
        for (kind, found) in self.kinds() {
            for one in found.iter().take(DESCRIBED) {
                let _ = writeln!(text, "{kind}: {one}");
            }
        }
        text
    }
}

fn events(reply: StreamRangeReply) -> Vec<String> {
    reply.ids.iter().filter_map(|entry| entry.get("event")).collect()
}

fn describe(id: &str, entry: &Entry, kept: &Kept) -> String {
    let Entry { case, verdict, confirmed, refusals, copies, first_seen } = entry;
    let text = |bytes: &Option<Vec<u8>>| match bytes {
        Some(bytes) => String::from_utf8_lossy(bytes).chars().take(1_500).collect(),
        None => "none".to_owned(),
    };
    let mut known = format!(
        "{id} ({case}; confirmed: {confirmed}, after {refusals} refusals, with {copies} copies)\n  expected {verdict:?}\n  \
         state {:?}, result {}",
        kept.state,
        text(&kept.result)
    );
    if first_seen != &kept.result {
        let _ = write!(known, "\n  first seen: {}", text(first_seen));
    }
    for event in &kept.events {
        let _ = write!(known, "\n  event {event}");
    }
    known
}

/// What was done, as it begins the one line.
pub fn deeds(totals: Totals, kills: usize, points: &[(&str, usize)], troubles: &BTreeMap<&str, usize>) -> String {
    let points: Vec<_> = points.iter().map(|(point, count)| format!("{point} {count}")).collect();
    let mut text = format!(
        "{} requests ({} refused at first, {} copies, {} poison), {} kills ({})",
        thousands(totals.confirmed),
        thousands(totals.refusals),
        thousands(totals.copies),
        thousands(totals.poison),
        thousands(kills),
        points.join(", "),
    );
    for (trouble, count) in troubles.iter().filter(|(trouble, _)| **trouble != "kills") {
        let _ = write!(text, ", {count} {trouble}");
    }
    text
}

pub fn thousands(number: usize) -> String {
    let digits = number.to_string();
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    groups.join(",")
}
