//! The fleet in a storm: it works while everything around it, and it itself, fails.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fastrand::Rng;
use tokio::task::JoinSet;
use tribunal_tests::rabbit::{Node, QueueDepth};
use tribunal_tests::redis::Redis;
use tribunal_tests::{binary, docker_text};

use crate::court::Court;
use crate::disk::SmallDisk;
use crate::docker::Daemon;
use crate::fleet::{Fleet, GRACE, Place, Tally};
use crate::ledger::Totals;
use crate::plan::Plan;
use crate::points::{Dooms, POINTS};
use crate::reckoning::{Findings, deeds, thousands};
use crate::traces::Grounds;
use crate::troubles::{Chronicle, HEARTBEAT_S, Lane};

const NATIVE_WORKERS: usize = 4;
/// Of these, so many may be born to die at a fail point. Others are there to be killed at any moment.
const DOOMED: usize = 3;
const DOCKER_WORKERS: usize = 2;
const SLOTS: usize = 2;
/// A request may lose many workers here; in earnest it would be given up sooner, which is another test's promise.
const ATTEMPTS: usize = 10;
const STANDSTILL: Duration = Duration::from_secs(120);
const SURPRISES: usize = 20;
const EMPTY_WITHIN: Duration = Duration::from_secs(60);
const SWEPT_WITHIN: Duration = Duration::from_secs(40);
const GONE_WITHIN: Duration = Duration::from_secs(10);
const REPORTED_EVERY: Duration = Duration::from_secs(5);
const LOOKED_EVERY: Duration = Duration::from_millis(250);

/// Everything that takes part. Dropped in this order.
pub struct Storm {
    plan: Plan,
    seed: u64,
    begun: Instant,
    fleet: Arc<Fleet>,
    courts: Vec<Arc<Court>>,
    chronicle: Arc<Chronicle>,
    broker: Arc<Mutex<Node>>,
    store: Arc<Mutex<Redis>>,
    docker: Option<Arc<Daemon>>,
    grounds: Grounds,
    disk: Arc<SmallDisk>,
    logs: tempfile::TempDir,
    _folder: tempfile::TempDir,
}

/// Why the work came to its end.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    AllDone,
    Interrupted,
    /// With what happened.
    Hopeless(String),
}

impl Storm {
    pub async fn prepare(plan: Plan, seed: u64, rng: &mut Rng) -> Self {
        let temporary = |prefix: &str| tempfile::Builder::new().prefix(prefix).tempdir().expect("a temporary folder");
        let (folder, logs) = (temporary("tribunal-chaos-"), temporary("tribunal-chaos-logs-"));
        let path = folder.path();
        let docker = Daemon::from_environment().map(Arc::new);
        let disk = SmallDisk::mount(path);
        let (broker, store) = (Node::start(), Redis::start());
        let cgroup = format!("tribunal-chaos-{}", std::process::id());
        let common = format!(
            "queue.url = \"{}?heartbeat={HEARTBEAT_S}\"\nstore.url = \"{}\"\nworker.slots = {SLOTS}\n\
             worker.max_attempts = {ATTEMPTS}\nworker.grace_s = {}\nsandbox.native.cgroup = \"{cgroup}\"\n",
            broker.url(),
            store.url(),
            GRACE.as_secs(),
        );
        let root = |name: &str, root: &Path| {
            format!("queue.name = \"{name}\"\nsandbox.workspace_root = \"{}\"\n", root.display())
        };
        let roots = [path.join("work"), disk.path().join("work"), path.join("docker")];

        let native = common.clone() + &root("chaos", &roots[0]);
        let native = Court::open(path, "native", &native, plan.requests, 60).await;
        let mut courts = vec![native];
        let cramped = path.join("cramped.toml");
        std::fs::write(&cramped, common.clone() + &root("chaos", &roots[1])).expect("a file in a folder of ours");

        let place = |name: String, binary: &Path, settings: &Path, doomed| Place {
            name,
            binary: binary.to_owned(),
            settings: settings.to_owned(),
            doomed,
        };
        let (failing, plain) = (binary("tribunal-worker-failing"), binary("tribunal-worker"));
        let native_place =
            |number| place(format!("native-{number}"), &failing, &courts[0].settings_file, number < DOOMED);
        let mut places: Vec<_> = (0..NATIVE_WORKERS).map(native_place).collect();
        places.push(place("cramped".into(), &plain, &cramped, false));
        if let Some(daemon) = &docker {
            let settings = common + &root("chaos-docker", &roots[2]) + "sandbox.kind = \"docker\"\n";
            let settings = settings + &docker_text(&daemon.host, &daemon.image);
            let court = Court::open(path, "docker", &settings, plan.docker_requests, 6).await;
            let docker_place = |number| place(format!("docker-{number}"), &plain, &court.settings_file, false);
            places.extend((0..DOCKER_WORKERS).map(docker_place));
            courts.push(court);
        }
        let dooms = Dooms::plan(plan.at_each_point + 1, rng);
        let fleet = Fleet::start(places, dooms, Arc::clone(&courts[0].pace), logs.path(), rng);
        let grounds =
            Grounds { roots: roots.to_vec(), cgroup, folder: path.to_owned(), mounts: vec![disk.path().to_owned()] };
        Self {
            plan,
            seed,
            begun: Instant::now(),
            fleet: Arc::new(fleet),
            courts,
            chronicle: Arc::default(),
            broker: Arc::new(Mutex::new(broker)),
            store: Arc::new(Mutex::new(store)),
            docker,
            grounds,
            disk: Arc::new(disk),
            logs,
            _folder: folder,
        }
    }

    /// Works until everything is done that was planned.
    pub async fn rage(&self, rng: &mut Rng, interrupted: impl Future<Output = ()>) -> End {
        let mut tasks = JoinSet::new();
        let mut producing = JoinSet::new();
        for court in &self.courts {
            tasks.spawn(Arc::clone(court).watch());
            producing.spawn(Arc::clone(court).produce(rng.fork()));
        }
        let lanes = self.lanes(rng);
        let mut interrupted = std::pin::pin!(interrupted);
        let mut reported = Instant::now();
        let mut end = loop {
            tokio::select! {
                () = &mut interrupted => break End::Interrupted,
                Some(Err(panic)) = producing.join_next() => break End::Hopeless(format!("a producer: {panic}")),
                () = tokio::time::sleep(LOOKED_EVERY) => {}
            }
            if reported.elapsed() > REPORTED_EVERY {
                reported = Instant::now();
                self.report();
            }
            self.fleet.make_room_for_dooms();
            self.close_what_is_done(&lanes);
            if let Some(end) = self.end(&lanes) {
                break end;
            }
        };
        self.courts.iter().for_each(|court| court.pace.end());
        let joined = tokio::task::spawn_blocking(|| lanes.into_iter().try_for_each(|(_, lane)| lane.join()));
        if joined.await.expect("joining threads does not panic").is_err() {
            end = End::Hopeless("a trouble could not be made or not be repaired".into());
        }
        self.fleet.dooms().forget_the_rest();
        self.courts.iter().for_each(|court| court.produce_no_more());
        if end != End::Interrupted {
            while producing.join_next().await.is_some() {}
            self.drain().await;
        }
        end
    }

    /// A smaller court that has had its work and its troubles would only take the machine from the others.
    fn close_what_is_done(&self, lanes: &[(usize, JoinHandle<()>)]) {
        for (number, court) in self.courts.iter().enumerate().skip(1) {
            let mut own = lanes.iter().filter(|(court, _)| *court == number);
            if court.pace.progress() >= 1.0 && own.all(|(_, lane)| lane.is_finished()) {
                court.produce_no_more();
            }
        }
    }

    /// Each with the number of the court that it troubles.
    fn lanes(&self, rng: &mut Rng) -> Vec<(usize, JoinHandle<()>)> {
        let Plan { kills, at_each_point, restarts, rarities, .. } = self.plan;
        // Beside those at fail points; and some more than are asked for, because some may find nobody.
        let kills = kills + 10 - (at_each_point * 9).min(kills);
        let mut lane = |court: usize| Lane {
            pace: Arc::clone(&self.courts[court].pace),
            chronicle: Arc::clone(&self.chronicle),
            rng: rng.fork(),
        };
        let mut lanes = Vec::new();
        let mut push = |court: usize, lane| lanes.push((court, lane));

        let (broker, own) = (Arc::clone(&self.broker), lane(0));
        push(
            0,
            std::thread::spawn(move || {
                let others = [("connection cuts", rarities + 2), ("disk alarms", rarities), ("broker freezes", 2)];
                own.of_broker(&[&[("broker restarts", restarts)], &others[..]].concat(), &broker);
            }),
        );
        let (store, own) = (Arc::clone(&self.store), lane(0));
        push(
            0,
            std::thread::spawn(move || {
                let others = [("times read-only", rarities), ("times out of memory", rarities), ("Redis freezes", 2)];
                own.of_store(&[&[("Redis restarts", restarts)], &others[..]].concat(), &store);
            }),
        );
        let (fleet, own) = (Arc::clone(&self.fleet), lane(0));
        push(
            0,
            std::thread::spawn(move || {
                own.of_workers(&[("kills", kills)], &fleet, |name| !name.starts_with("docker"));
            }),
        );
        let (fleet, own) = (Arc::clone(&self.fleet), lane(0));
        push(
            0,
            std::thread::spawn(move || {
                let table = [("freezes", 2 * rarities), ("long freezes", rarities), ("terminations", 2 * rarities)];
                own.of_workers(&table, &fleet, |name| !name.starts_with("docker"));
            }),
        );
        let (disk, own) = (Arc::clone(&self.disk), lane(0));
        push(0, std::thread::spawn(move || own.of_disk(&[("times a disk was full", rarities + 2)], &disk)));
        if let Some(docker) = &self.docker {
            let (docker, own) = (Arc::clone(docker), lane(1));
            push(
                1,
                std::thread::spawn(move || {
                    own.of_docker(&[("dockerd restarts", 2), ("dockerd crashes", 1), ("dockerd hangs", 3)], &docker);
                }),
            );
            let (fleet, own) = (Arc::clone(&self.fleet), lane(1));
            push(
                1,
                std::thread::spawn(move || {
                    own.of_workers(&[("kills", rarities)], &fleet, |name| name.starts_with("docker"));
                }),
            );
        }
        lanes
    }

    /// Whether it is time to stop.
    fn end(&self, lanes: &[(usize, JoinHandle<()>)]) -> Option<End> {
        let worked = self.courts.iter().all(|court| court.pace.progress() >= 1.0);
        if worked && lanes.iter().all(|(_, lane)| lane.is_finished()) && self.fleet.dooms().all_fulfilled() {
            return Some(End::AllDone);
        }
        if self.begun.elapsed() > self.plan.at_most {
            return Some(End::Hopeless(format!("not done within {:?}", self.plan.at_most)));
        }
        if self.fleet.tally().surprises.len() > SURPRISES {
            return Some(End::Hopeless("too many workers end by themselves".into()));
        }
        // One that is done waits for the others.
        let stuck = |court: &&Arc<Court>| court.pace.standstill() > STANDSTILL && court.pace.progress() < 1.0;
        let stuck = self.courts.iter().find(stuck)?;
        Some(End::Hopeless(format!("no result on {} for {STANDSTILL:?}", stuck.settings.queue.name)))
    }

    fn report(&self) {
        let (totals, tally) = (self.totals(), self.fleet.tally());
        let points: usize = tally.at_points.values().sum();
        eprintln!(
            "chaos: {} s: {} of {} judged, {} open, {} kills ({points} at fail points), {} failed starts, {}",
            self.begun.elapsed().as_secs(),
            thousands(totals.done),
            thousands(self.plan.requests + self.docker.as_ref().map_or(0, |_| self.plan.docker_requests)),
            totals.open,
            tally.kills(),
            tally.failed_starts,
            self.chronicle.latest(),
        );
    }

    fn totals(&self) -> Totals {
        let totals = self.courts.iter().map(|court| court.ledger.totals());
        totals.fold(Totals::default(), |sum, one| Totals {
            confirmed: sum.confirmed + one.confirmed,
            done: sum.done + one.done,
            open: sum.open + one.open,
            refusals: sum.refusals + one.refusals,
            copies: sum.copies + one.copies,
            poison: sum.poison + one.poison,
        })
    }

    /// Until every promise is kept, or nothing more happens.
    async fn drain(&self) {
        let waits = |court: &Arc<Court>| court.ledger.totals().open > 0 && court.pace.standstill() < STANDSTILL;
        while self.courts.iter().any(waits) {
            tokio::time::sleep(LOOKED_EVERY).await;
        }
    }

    /// What is true at the end; all workers are stopped on the way.
    pub async fn reckon(mut self, end: End) -> ExitCode {
        let mut findings = Findings::default();
        let mut failures = Vec::new();
        if let End::Hopeless(reason) = &end {
            failures.push(reason.clone());
        }
        if end != End::Interrupted {
            findings.pending = self.pending().await;
            findings.left = self.unswept().await;
        }
        tokio::task::block_in_place(|| Arc::get_mut(&mut self.fleet).expect("all lanes have ended").stop());
        let tally = self.fleet.tally();
        if end == End::Interrupted {
            self.grounds.clear();
            return ExitCode::from(130);
        }
        findings.left.extend(self.traces().await);
        self.grounds.clear();
        let store_url = self.courts[0].settings.store.url.clone();
        for court in &self.courts {
            if let Err(error) = findings.compare(&store_url, &court.ledger).await {
                failures.push(format!("the store could not be read: {error}"));
            }
        }
        failures.extend(self.goals_missed(&tally));
        failures.extend(tally.surprises.iter().cloned());

        let (counts, at_random) = (self.chronicle.counts(), tally.killed);
        // In the order of the road, which is not that of the alphabet.
        let mut points: Vec<_> = POINTS.iter().map(|point| (*point, tally.at_points[point])).collect();
        points.push(("at random", at_random));
        println!(
            "chaos: seed {}, {} s, {}: {}",
            self.seed,
            self.begun.elapsed().as_secs(),
            deeds(self.totals(), tally.kills(), &points, &counts),
            findings.counts()
        );
        if findings.none() && failures.is_empty() {
            return ExitCode::SUCCESS;
        }
        eprint!("{}", findings.details());
        failures.iter().for_each(|failure| eprintln!("chaos: {failure}"));
        self.keep_logs();
        ExitCode::FAILURE
    }

    async fn pending(&self) -> Vec<String> {
        let broker = Arc::clone(&self.broker);
        let queues = move || broker.lock().unwrap_or_else(PoisonError::into_inner).queues();
        let poison: usize = self.courts.iter().map(|court| court.ledger.totals().poison).sum();
        let kept = queues.clone();
        let unburied = move || {
            let kept: u64 = kept().iter().filter(|queue| is_final(&queue.queue)).map(|queue| queue.ready).sum();
            let missing = poison.saturating_sub(kept as usize);
            if missing == 0 {
                Vec::new()
            } else {
                vec![format!("of {poison} poison messages {missing} were not put aside")]
            }
        };
        let mut pending = eventually_none(EMPTY_WITHIN, unburied).await;
        pending.extend(waiting_in(queues).await);
        pending
    }

    /// What the living should have removed of the dead.
    async fn unswept(&self) -> Vec<String> {
        let (roots, fleet) = (self.grounds.roots.clone(), Arc::clone(&self.fleet));
        let look = move || -> Vec<String> {
            let tenants: Vec<_> =
                roots.iter().filter_map(|root| std::fs::read_dir(root).ok()).flatten().flatten().collect();
            if tenants.len() <= fleet.living(|_| true) {
                return Vec::new();
            }
            let names: Vec<_> = tenants.iter().map(|tenant| tenant.path().display().to_string()).collect();
            vec![format!("more folders than workers: {}", names.join(" "))]
        };
        eventually_none(SWEPT_WITHIN, look).await
    }

    async fn traces(&self) -> Vec<String> {
        let deadline = Instant::now() + GONE_WITHIN;
        let ids: BTreeSet<_> = self.courts.iter().flat_map(|court| court.ledger.entries().into_keys()).collect();
        loop {
            let mut traces = self.grounds.traces();
            if let Some(docker) = &self.docker {
                traces.extend(docker.containers_of(&ids).await.into_iter().map(|id| format!("container {id}")));
            }
            if traces.is_empty() || Instant::now() > deadline {
                return traces;
            }
            tokio::time::sleep(LOOKED_EVERY).await;
        }
    }

    fn goals_missed(&self, tally: &Tally) -> Vec<String> {
        let (totals, counts) = (self.totals(), self.chronicle.counts());
        let count = |trouble: &str| counts.get(trouble).copied().unwrap_or(0);
        let mut goals = vec![
            ("requests", totals.confirmed, self.plan.requests),
            ("kills", tally.kills(), self.plan.kills),
            ("broker restarts", count("broker restarts"), self.plan.restarts),
            ("Redis restarts", count("Redis restarts"), self.plan.restarts),
        ];
        goals.extend(tally.at_points.iter().map(|(point, count)| (*point, *count, self.plan.at_each_point)));
        let missed = goals.into_iter().filter(|(_, reached, goal)| reached < goal);
        missed.map(|(what, reached, goal)| format!("too few {what}: {reached} of {goal}")).collect()
    }

    fn keep_logs(self) {
        let Self { logs, broker, store, .. } = self;
        let path = logs.keep();
        let broker = broker.lock().unwrap_or_else(PoisonError::into_inner).log();
        let store = store.lock().unwrap_or_else(PoisonError::into_inner).log();
        for log in [broker, store] {
            let name = log.file_name().expect("a file");
            let _ = std::fs::copy(&log, path.join(name));
        }
        eprintln!("chaos: logs are kept in {}", path.display());
    }
}

/// What is still in the queues when there was time enough to empty them.
pub async fn waiting_in(queues: impl Fn() -> Vec<QueueDepth> + Send + 'static) -> Vec<String> {
    let waiting = move || -> Vec<_> {
        let waits = |depth: &QueueDepth| !is_final(&depth.queue) && depth.ready + depth.unacked > 0;
        queues().into_iter().filter(waits).map(|depth| format!("{depth:?}")).collect()
    };
    eventually_none(EMPTY_WITHIN, waiting).await
}

/// Whether what is in a queue waits for a person, or for a newer version.
fn is_final(queue: &str) -> bool {
    [".dead", ".parked", ".unanswered"].iter().any(|end| queue.ends_with(end))
}

/// What `look` still finds when the time is over.
async fn eventually_none<T: Send + 'static>(patience: Duration, look: impl Fn() -> Vec<T> + Send + 'static) -> Vec<T> {
    let looking = tokio::task::spawn_blocking(move || {
        let deadline = Instant::now() + patience;
        loop {
            let found = look();
            if found.is_empty() || Instant::now() > deadline {
                return found;
            }
            std::thread::sleep(LOOKED_EVERY);
        }
    });
    looking.await.expect("looking does not panic")
}
