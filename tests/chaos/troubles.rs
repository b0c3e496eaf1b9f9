//! What goes wrong: tables of troubles, each in an order of its own, spread over the work.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fastrand::Rng;
use tribunal_tests::rabbit::Node;
use tribunal_tests::redis::Redis;

use crate::disk::SmallDisk;
use crate::docker::Daemon;
use crate::fleet::Fleet;
use crate::pace::Pace;

/// The broker gives up on a silent client after two of them.
pub const HEARTBEAT_S: u64 = 4;

/// The part of the work over which troubles are spread. Each holds up the next of its kind, and the last ones would come when
/// everything else is done.
const DONE_BY: f64 = 0.85;

/// What happened how often.
#[derive(Default)]
pub struct Chronicle {
    counts: Mutex<BTreeMap<&'static str, usize>>,
    latest: Mutex<&'static str>,
}

impl Chronicle {
    fn begin(&self, trouble: &'static str) {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
    }

    fn end(&self, trouble: &'static str) {
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner).entry(trouble).or_default() += 1;
    }

    pub fn counts(&self) -> BTreeMap<&'static str, usize> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn latest(&self) -> &'static str {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Names a trouble and says how often it comes.
pub type Table = [(&'static str, usize)];

/// One kind of thing that suffers. Its troubles come one after the other, beside those of others.
pub struct Lane {
    pub pace: Arc<Pace>,
    pub chronicle: Arc<Chronicle>,
    pub rng: Rng,
}

impl Lane {
    /// Lets every trouble of the table come as often as it says, in a random order, over the whole of the work. Each
    /// one is over, and repaired, when `suffer` returns.
    fn run(mut self, table: &Table, mut suffer: impl FnMut(&'static str, &Pace, &mut Rng)) {
        let mut troubles: Vec<_> = table.iter().flat_map(|(name, times)| vec![*name; *times]).collect();
        self.rng.shuffle(&mut troubles);
        let spread = DONE_BY / (troubles.len() + 1) as f64;
        for (index, trouble) in troubles.into_iter().enumerate() {
            // Not at equal distances, which might fall in step with something.
            if !self.pace.reach(spread * (index as f64 + 0.5 + self.rng.f64())) {
                return;
            }
            self.chronicle.begin(trouble);
            suffer(trouble, &self.pace, &mut self.rng);
            self.chronicle.end(trouble);
        }
    }

    pub fn of_broker(self, table: &Table, broker: &Mutex<Node>) {
        self.run(table, |trouble, pace, rng| {
            let mut broker = broker.lock().unwrap_or_else(PoisonError::into_inner);
            match trouble {
                "broker restarts" => {
                    broker.kill();
                    pace.pause(Duration::from_millis(rng.u64(0..1_000)));
                    broker.start_again();
                }
                "connection cuts" => broker.cut_connections(),
                "disk alarms" => {
                    broker.set_disk_alarm(true);
                    pace.pause(Duration::from_millis(rng.u64(1_000..4_000)));
                    broker.set_disk_alarm(false);
                }
                "broker freezes" => {
                    broker.freeze();
                    pace.pause(Duration::from_millis(rng.u64(1_000..6_000)));
                    broker.thaw();
                }
                other => unreachable!("no trouble of a broker: {other}"),
            }
        });
    }

    pub fn of_store(self, table: &Table, store: &Mutex<Redis>) {
        self.run(table, |trouble, pace, rng| {
            let mut store = store.lock().unwrap_or_else(PoisonError::into_inner);
            let mut last = || pace.pause(Duration::from_millis(rng.u64(500..3_000)));
            match trouble {
                "Redis restarts" => {
                    store.kill();
                    last();
                    store.start_again();
                }
                "times read-only" => {
                    store.set_read_only(true);
                    last();
                    store.set_read_only(false);
                }
                "times out of memory" => {
                    store.set_out_of_memory(true);
                    last();
                    store.set_out_of_memory(false);
                }
                "Redis freezes" => {
                    store.freeze();
                    last();
                    store.thaw();
                }
                other => unreachable!("no trouble of a store: {other}"),
            }
        });
    }

    /// Troubles of the workers whose names are such.
    pub fn of_workers(self, table: &Table, fleet: &Fleet, among: fn(&str) -> bool) {
        self.run(table, |trouble, pace, rng| {
            let victim = loop {
                match fleet.pick(among, rng) {
                    Some(victim) => break victim,
                    None if pace.is_over() => return,
                    // They are all about to die, or just born.
                    None => pace.pause(Duration::from_millis(50)),
                }
            };
            match trouble {
                "kills" => fleet.kill(victim),
                "terminations" => fleet.terminate(victim),
                "freezes" => {
                    fleet.freeze(victim);
                    pace.pause(Duration::from_millis(rng.u64(200..2_000)));
                    fleet.thaw(victim);
                }
                // So long that its requests are running elsewhere when it wakes up.
                "long freezes" => {
                    fleet.freeze(victim);
                    pace.pause(Duration::from_secs(2 * HEARTBEAT_S + 2));
                    fleet.thaw(victim);
                }
                other => unreachable!("no trouble of a worker: {other}"),
            }
        });
    }

    pub fn of_disk(self, table: &Table, disk: &SmallDisk) {
        self.run(table, |_, pace, rng| {
            disk.fill(rng.usize(0..512));
            pace.pause(Duration::from_millis(rng.u64(1_000..3_000)));
            disk.free();
        });
    }

    pub fn of_docker(self, table: &Table, docker: &Daemon) {
        self.run(table, |trouble, pace, rng| match trouble {
            "dockerd restarts" => docker.control("restart"),
            "dockerd crashes" => docker.control("crash"),
            "dockerd hangs" => {
                docker.control("freeze");
                pace.pause(Duration::from_millis(rng.u64(1_000..6_000)));
                docker.control("thaw");
            }
            other => unreachable!("no trouble of a Docker daemon: {other}"),
        });
    }
}
