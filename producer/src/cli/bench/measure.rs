//! Rounds in which all kinds take turns, and what they saw.

use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use tokio::task::JoinSet;

use super::super::args::BenchKind;
use super::{PerKind, Runner};

/// Between runs that are not back to back: what a kernel put to sleep must wake up again.
pub const GAP: Duration = Duration::from_millis(50);
/// Runs with gaps in a round.
const GAPPED: usize = 5;
/// Runs in a batch, however slow they are.
const FEWEST: usize = 2;
const MOST: usize = 2000;
const WARM_UP: usize = 3;
/// Linux tells times in hundredths of a second, whatever it measures them in.
const MS_PER_TICK: u64 = 10;

#[derive(Clone, Copy)]
pub struct Plan {
    pub rounds: usize,
    /// How long each kind is to run in a round, back to back.
    pub batch: Duration,
    /// Runs at the same time, when there is more than one.
    pub lanes: usize,
}

/// What was seen of one kind.
pub struct Measured {
    pub back_to_back: Latency,
    pub gapped: Latency,
    /// Of the whole machine, for each run.
    pub cpu_ms: f64,
    pub one_at_a_time_per_s: f64,
    pub all_lanes_per_s: f64,
}

pub struct Latency {
    pub p50_ms: f64,
    pub p95_ms: f64,
    /// Median, over the rounds, of this kind's p50 by bare's in the same round.
    pub times_bare: f64,
}

/// One contender, and what the rounds saw of it so far; or why it is out.
struct Contender {
    kind: BenchKind,
    state: Result<(Arc<dyn Runner>, Seen), String>,
}

#[derive(Default)]
struct Seen {
    runs_in_batch: usize,
    back_to_back: Samples,
    gapped: Samples,
    busy: Duration,
    /// Time and runs of all batches, one at a time and in all lanes.
    one: (Duration, usize),
    all: (Duration, usize),
}

/// Milliseconds, round by round.
#[derive(Default)]
struct Samples(Vec<Vec<f64>>);

impl Samples {
    fn all(&self) -> Vec<f64> {
        self.0.iter().flatten().copied().collect()
    }

    fn medians(&self) -> Vec<f64> {
        self.0.iter().map(|round| quantile(round, 0.5)).collect()
    }

    /// A round's two see the same machine; those of different rounds may not.
    fn against(&self, bare: &Self) -> Latency {
        let ratios: Vec<_> = self.medians().iter().zip(bare.medians()).map(|(mine, bare)| mine / bare).collect();
        let all = self.all();
        Latency { p50_ms: quantile(&all, 0.5), p95_ms: quantile(&all, 0.95), times_bare: quantile(&ratios, 0.5) }
    }
}

pub async fn all(runners: PerKind<Arc<dyn Runner>>, plan: Plan) -> PerKind<Measured> {
    let progress = Progress::start(plan.rounds);
    let mut contenders = Vec::new();
    for (kind, runner) in runners {
        progress.show(0, kind);
        let state = match runner {
            Ok(runner) => warm_up(&*runner, &plan).await.map(|seen| (runner, seen)),
            Err(problem) => Err(problem),
        };
        contenders.push(Contender { kind, state });
    }
    for round in 0..plan.rounds {
        for phase in [Phase::BackToBack, Phase::AllLanes, Phase::Gapped] {
            for Contender { kind, state } in &mut contenders {
                progress.show(round, *kind);
                if let Ok((runner, seen)) = state
                    && let Err(problem) = phase.measure(runner, seen, &plan).await
                {
                    *state = Err(problem);
                }
            }
        }
    }
    let bare = contenders.iter().find(|contender| contender.kind == BenchKind::Bare);
    let bare = match bare.map(|bare| &bare.state) {
        Some(Ok((_, seen))) => Ok(seen),
        Some(Err(problem)) => Err(problem.clone()),
        None => Err("bare was not measured".to_owned()),
    };
    contenders
        .iter()
        .map(|Contender { kind, state }| {
            let measured = match (state, &bare) {
                (Ok((_, seen)), Ok(bare)) => Ok(seen.against(bare)),
                (Err(problem), _) | (_, Err(problem)) => Err(problem.clone()),
            };
            (*kind, measured)
        })
        .collect()
}

impl Seen {
    fn against(&self, bare: &Self) -> Measured {
        let per_second = |(time, runs): (Duration, usize)| runs as f64 / time.as_secs_f64();
        Measured {
            back_to_back: self.back_to_back.against(&bare.back_to_back),
            gapped: self.gapped.against(&bare.gapped),
            cpu_ms: ms(self.busy) / self.one.1 as f64,
            one_at_a_time_per_s: per_second(self.one),
            all_lanes_per_s: per_second(self.all),
        }
    }
}

/// The first runs fill caches; then one tells how many make a batch.
async fn warm_up(runner: &dyn Runner, plan: &Plan) -> Result<Seen, String> {
    for lane in 0..plan.lanes {
        runner.batch(lane, WARM_UP).await?;
    }
    runner.settle().await;
    let began = Instant::now();
    runner.batch(0, 1).await?;
    runner.settle().await;
    let fitting = plan.batch.as_secs_f64() / began.elapsed().as_secs_f64();
    Ok(Seen { runs_in_batch: (fitting as usize).clamp(FEWEST, MOST), ..Seen::default() })
}

#[derive(Clone, Copy)]
enum Phase {
    BackToBack,
    AllLanes,
    Gapped,
}

impl Phase {
    async fn measure(self, runner: &Arc<dyn Runner>, seen: &mut Seen, plan: &Plan) -> Result<(), String> {
        match self {
            Self::BackToBack => {
                let (began, busy) = (Instant::now(), busy_time());
                seen.back_to_back.0.push(runner.batch(0, seen.runs_in_batch).await?);
                // What is put off is not saved: it counts for the batch, though no run waits for it.
                runner.settle().await;
                seen.one.0 += began.elapsed();
                seen.one.1 += seen.runs_in_batch;
                seen.busy += busy_time().saturating_sub(busy);
            }
            Self::AllLanes => {
                let began = Instant::now();
                let mut lanes = JoinSet::new();
                for lane in 0..plan.lanes {
                    let (runner, runs) = (Arc::clone(runner), seen.runs_in_batch);
                    lanes.spawn(async move { runner.batch(lane, runs).await });
                }
                while let Some(lane) = lanes.join_next().await {
                    lane.map_err(|error| error.to_string())??;
                }
                runner.settle().await;
                seen.all.0 += began.elapsed();
                seen.all.1 += plan.lanes * seen.runs_in_batch;
            }
            Self::Gapped => {
                let mut times = Vec::with_capacity(GAPPED);
                for _ in 0..GAPPED {
                    tokio::time::sleep(GAP).await;
                    times.extend(runner.batch(0, 1).await?);
                }
                runner.settle().await;
                seen.gapped.0.push(times);
            }
        }
        Ok(())
    }
}

/// How long all processors of the machine together were not idle, since it started.
fn busy_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    Duration::from_millis(busy_ticks(&stat) * MS_PER_TICK)
}

/// See proc(5): user, nice, system, idle, iowait, irq, softirq, steal; what follows is counted in the first two already.
fn busy_ticks(stat: &str) -> u64 {
    let first = stat.lines().next().unwrap_or_default();
    let ticks = first.split_whitespace().skip(1).take(8).map(|number| number.parse::<u64>().unwrap_or_default());
    ticks.enumerate().filter(|(index, _)| !matches!(index, 3 | 4 | 7)).map(|(_, ticks)| ticks).sum()
}

pub fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// Of at least one number.
fn quantile(numbers: &[f64], share: f64) -> f64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[((sorted.len() as f64 * share) as usize).min(sorted.len() - 1)]
}

/// On a terminal, how far it is.
struct Progress {
    bar: ProgressBar,
}

impl Progress {
    fn start(rounds: usize) -> Self {
        let bar = ProgressBar::with_draw_target(Some(rounds as u64), ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{bar:30} round {pos}/{len} {msg} {elapsed}");
        bar.set_style(style.unwrap_or(ProgressStyle::default_bar()));
        Self { bar }
    }

    fn show(&self, round: usize, kind: BenchKind) {
        self.bar.set_position(round as u64);
        self.bar.set_message(kind.name());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;

    use super::*;

    #[test]
    fn quantiles_are_of_what_was_seen() {
        let numbers: Vec<_> = (1..=100).rev().map(f64::from).collect();
        assert_eq!((quantile(&numbers, 0.5), quantile(&numbers, 0.95)), (51.0, 96.0));
        assert_eq!((quantile(&[7.0], 0.5), quantile(&[7.0], 1.0)), (7.0, 7.0));
    }

    #[test]
    fn ratios_are_taken_within_rounds() {
        // The second round saw a machine three times as slow.
        let bare = Samples(vec![vec![1.0], vec![3.0], vec![1.0]]);
        let twice = Samples(vec![vec![2.0], vec![6.0], vec![2.0]]);
        assert_eq!(twice.against(&bare).times_bare, 2.0);
    }

    #[test]
    fn waiting_is_not_work() {
        assert_eq!(busy_ticks("cpu  10 2 30 1000 50 1 2 9 10 0\ncpu0 1 1 1 1"), 45);
    }

    struct Sleeper(Duration, Option<&'static str>);

    #[async_trait]
    impl Runner for Sleeper {
        async fn batch(&self, _lane: usize, runs: usize) -> Result<Vec<f64>, String> {
            if let Some(problem) = self.1 {
                return Err(problem.into());
            }
            tokio::time::sleep(self.0 * runs as u32).await;
            Ok(vec![ms(self.0); runs])
        }
    }

    #[tokio::test]
    async fn every_kind_has_its_row_and_one_that_fails_does_not_stop_the_others() {
        let sleeper = |time, problem| Arc::new(Sleeper(Duration::from_millis(time), problem)) as Arc<dyn Runner>;
        let runners = vec![
            (BenchKind::Bare, Ok(sleeper(1, None))),
            (BenchKind::Native, Ok(sleeper(3, None))),
            (BenchKind::Docker, Ok(sleeper(1, Some("it broke")))),
            (BenchKind::Runc, Err("not installed".into())),
        ];
        let plan = Plan { rounds: 2, batch: Duration::from_millis(10), lanes: 2 };
        let rows = all(runners, plan).await;
        assert_eq!(rows[1].1.as_ref().map(|native| native.back_to_back.times_bare).unwrap(), 3.0);
        let native = rows[1].1.as_ref().ok().unwrap();
        assert!(native.all_lanes_per_s > native.one_at_a_time_per_s * 1.5);
        assert_eq!(rows[2].1.as_ref().err().unwrap(), "it broke");
        assert_eq!(rows[3].1.as_ref().err().unwrap(), "not installed");
    }
}
