//! Worker processes. Whoever dies is replaced, as an orchestrator would do it.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fastrand::Rng;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use crate::pace::Pace;
use crate::points::{Doom, Dooms, VARIABLE};

/// The exit code of a worker that cannot start, because what it needs is away.
const NOT_FIT: i32 = 3;
/// The grace period that the workers are given in their settings, and some time to put things away.
pub const GRACE: Duration = Duration::from_secs(10);
const STOPS_WITHIN: Duration = Duration::from_secs(25);

/// Where a worker sits.
pub struct Place {
    pub name: String,
    pub binary: PathBuf,
    pub settings: PathBuf,
    /// Whether it may be doomed to die at a fail point.
    pub doomed: bool,
}

/// All workers; those who watch over them end with [`Fleet::stop`].
pub struct Fleet {
    shared: Arc<Shared>,
    guards: Vec<JoinHandle<()>>,
}

struct Shared {
    seats: Vec<Seat>,
    dooms: Dooms,
    pace: Arc<Pace>,
    logs: PathBuf,
    closing: AtomicBool,
    tally: Mutex<Tally>,
}

struct Seat {
    place: Place,
    worker: Mutex<Option<Worker>>,
    ended: Condvar,
}

struct Worker {
    number: usize,
    process: Child,
    born: Instant,
    doom: Option<Doom>,
    fate: Option<Fate>,
    log: PathBuf,
}

/// What we did to a worker.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Killed,
    Terminated,
}

/// How workers ended.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// At a moment of our choice.
    pub killed: usize,
    /// At each fail point.
    pub at_points: BTreeMap<&'static str, usize>,
    pub terminated: usize,
    /// Workers that found something missing and said so.
    pub failed_starts: usize,
    /// Ends that nobody asked for.
    pub surprises: Vec<String>,
}

impl Tally {
    pub fn kills(&self) -> usize {
        self.killed + self.at_points.values().sum::<usize>()
    }
}

/// A worker at a time: its successor in the same seat is another one.
#[derive(Clone, Copy)]
pub struct Victim {
    seat: usize,
    number: usize,
}

impl Fleet {
    pub fn start(places: Vec<Place>, dooms: Dooms, pace: Arc<Pace>, logs: &Path, rng: &mut Rng) -> Self {
        let seats = places.into_iter().map(|place| Seat { place, worker: Mutex::new(None), ended: Condvar::new() });
        let shared = Arc::new(Shared {
            seats: seats.collect(),
            dooms,
            pace,
            logs: logs.to_owned(),
            closing: AtomicBool::new(false),
            tally: Mutex::default(),
        });
        let guard = |seat: usize| {
            let (shared, rng) = (Arc::clone(&shared), rng.fork());
            std::thread::spawn(move || shared.keep_filled(seat, rng))
        };
        let guards = (0..shared.seats.len()).map(guard).collect();
        Self { shared, guards }
    }

    pub fn tally(&self) -> Tally {
        let tally = self.shared.tally.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Tally { at_points: self.shared.dooms.fulfilled(), ..tally }
    }

    pub fn dooms(&self) -> &Dooms {
        &self.shared.dooms
    }

    /// One that has had time to begin something, and is not to die of something else.
    pub fn pick(&self, among: impl Fn(&str) -> bool, rng: &mut Rng) -> Option<Victim> {
        const GROWN_UP: Duration = Duration::from_millis(300);
        let mut living: Vec<_> =
            self.shared.seats.iter().enumerate().filter(|(_, seat)| among(&seat.place.name)).collect();
        rng.shuffle(&mut living);
        living.into_iter().find_map(|(index, seat)| {
            let worker = seat.worker();
            let worker = worker.as_ref()?;
            let free = worker.doom.is_none() && worker.fate.is_none() && worker.born.elapsed() > GROWN_UP;
            free.then_some(Victim { seat: index, number: worker.number })
        })
    }

    /// A worker is born with its doom, or without one if none is due. When the work is done, those without make room for the
    /// dooms that are left, which otherwise would wait for ever.
    pub fn make_room_for_dooms(&self) {
        if self.shared.pace.progress() < 1.0 || !self.shared.dooms.are_ahead() {
            return;
        }
        for (index, seat) in self.shared.seats.iter().enumerate().filter(|(_, seat)| seat.place.doomed) {
            let number = seat.worker().as_ref().filter(|worker| worker.doom.is_none()).map(|worker| worker.number);
            if let Some(number) = number {
                self.kill(Victim { seat: index, number });
            }
        }
    }

    pub fn kill(&self, victim: Victim) {
        self.shared.strike(victim, Signal::KILL, Some(Fate::Killed));
    }

    pub fn freeze(&self, victim: Victim) {
        self.shared.strike(victim, Signal::STOP, None);
    }

    pub fn thaw(&self, victim: Victim) {
        self.shared.strike(victim, Signal::CONT, None);
    }

    /// Asks it to stop, and waits until it has.
    pub fn terminate(&self, victim: Victim) {
        self.shared.terminate(victim);
    }

    /// How many workers there are whose names are such.
    pub fn living(&self, among: impl Fn(&str) -> bool) -> usize {
        let seats = self.shared.seats.iter().filter(|seat| among(&seat.place.name));
        seats.filter(|seat| seat.worker().is_some()).count()
    }

    /// Asks all workers to stop, and waits until they have.
    pub fn stop(&mut self) {
        self.shared.closing.store(true, Ordering::SeqCst);
        let shared = &self.shared;
        std::thread::scope(|scope| {
            for (index, seat) in shared.seats.iter().enumerate() {
                let victim = seat.worker().as_ref().map(|worker| Victim { seat: index, number: worker.number });
                if let Some(victim) = victim {
                    scope.spawn(move || shared.terminate(victim));
                }
            }
        });
        for guard in self.guards.drain(..) {
            guard.join().expect("a guard does not panic");
        }
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Seat {
    fn worker(&self) -> MutexGuard<'_, Option<Worker>> {
        self.worker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    fn keep_filled(&self, index: usize, mut rng: Rng) {
        let seat = &self.seats[index];
        for number in 0.. {
            let doom = if seat.place.doomed { self.dooms.take(self.pace.progress()) } else { None };
            let watched = {
                let mut place = seat.worker();
                if self.closing.load(Ordering::SeqCst) {
                    return;
                }
                let worker = self.hire(&seat.place, number, doom);
                let watched = pidfd_open(Pid::from_child(&worker.process), PidfdFlags::empty());
                *place = Some(worker);
                watched.expect("our own child")
            };
            // Not by waiting for it: until we have the lock, its id must remain its own.
            let _ = poll(&mut [PollFd::new(&watched, PollFlags::IN)], None);
            let (worker, status) = {
                let mut place = seat.worker();
                let mut worker = place.take().expect("only we take it away");
                let status = worker.process.wait().expect("our own child");
                seat.ended.notify_all();
                (worker, status)
            };
            let failed_start = status.code() == Some(NOT_FIT);
            self.bury(&seat.place, worker, status);
            let pause = Duration::from_millis(if failed_start { 500 } else { rng.u64(0..300) });
            if !self.closing.load(Ordering::SeqCst) {
                std::thread::sleep(pause);
            }
        }
    }

    fn hire(&self, place: &Place, number: usize, doom: Option<Doom>) -> Worker {
        let log = self.logs.join(format!("{}.{number}.log", place.name));
        let mut command = Command::new(&place.binary);
        command.arg("--config").arg(&place.settings).stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(File::create(&log).expect("a file in a folder of ours"));
        // In a group of its own, so that Ctrl-C reaches only us.
        command.process_group(0).env_remove(VARIABLE);
        if let Some(doom) = doom {
            command.env(VARIABLE, doom.setting());
        }
        let process = command.spawn().expect("the worker starts");
        Worker { number, process, born: Instant::now(), doom, fate: None, log }
    }

    /// Finds out what it died of.
    fn bury(&self, place: &Place, worker: Worker, status: ExitStatus) {
        let said = |words: &str| std::fs::read_to_string(&worker.log).is_ok_and(|log| log.contains(words));
        let killed = status.signal() == Some(Signal::KILL.as_raw());
        let fulfilled = worker.doom.filter(|doom| killed && said(&doom.last_words()));
        match (worker.doom, fulfilled) {
            (_, Some(doom)) => return self.dooms.fulfil(doom),
            (Some(doom), None) => self.dooms.put_back(doom),
            (None, None) => {}
        }
        let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        match worker.fate {
            Some(Fate::Killed) if killed => tally.killed += 1,
            Some(Fate::Terminated) if status.success() => tally.terminated += 1,
            _ if status.code() == Some(NOT_FIT) => tally.failed_starts += 1,
            fate => {
                let asked = if fate == Some(Fate::Terminated) { "asked to stop" } else { "by itself" };
                tally.surprises.push(format!("{} ended {asked} with {status}: {}", place.name, worker.log.display()));
            }
        }
    }

    /// Does nothing to a successor, nor to one who has met another fate since it was picked.
    fn strike(&self, victim: Victim, signal: Signal, fate: Option<Fate>) {
        let mut worker = self.seats[victim.seat].worker();
        let same = |worker: &&mut Worker| worker.number == victim.number && (fate.is_none() || worker.fate.is_none());
        if let Some(worker) = worker.as_mut().filter(same) {
            worker.fate = worker.fate.or(fate);
            // Fails only if it is dead already.
            let _ = kill_process(Pid::from_child(&worker.process), signal);
        }
    }

    fn terminate(&self, victim: Victim) {
        // One that is frozen cannot stop.
        self.strike(victim, Signal::CONT, None);
        self.strike(victim, Signal::TERM, Some(Fate::Terminated));
        let seat = &self.seats[victim.seat];
        let lives = |worker: &mut Option<Worker>| worker.as_ref().is_some_and(|worker| worker.number == victim.number);
        let waited = seat.ended.wait_timeout_while(seat.worker(), STOPS_WITHIN, lives);
        if waited.is_ok_and(|(_, timeout)| timeout.timed_out()) {
            // It is buried as one that was asked to stop and did not.
            self.strike(victim, Signal::KILL, None);
        }
    }
}
