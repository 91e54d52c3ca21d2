//! The runs of the table, on several threads.

use super::{Load, Row};
use sidle_bench::report::Report;
use sidle_model::machines::{Machines, Share};
use sidle_model::{Costs, Plan};
use sidle_types::MigrationPolicy;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

/// Bytes of each key and value, as in Fulva's and Rocksteady's evaluations.
const KEY_BYTES: usize = 30;
const VALUE_BYTES: usize = 100;
/// How long the load lasts before the move: heat knows the hottest keys after a second.
const BEFORE_NS: u64 = 1_100_000_000;
/// How long it lasts after the move.
const AFTER_NS: u64 = 200_000_000;

/// The size of every run.
#[derive(Clone, Debug)]
pub struct Size {
    /// The machines.
    pub machines: Machines,
    /// The costs of work on them.
    pub costs: Costs,
    /// How many records there are; half of them move.
    pub records: u64,
    /// How many of them are in memory.
    pub sample: u64,
    /// Clients.
    pub clients: u32,
    /// The seeds: each is a run of every variant under every load.
    pub seeds: std::ops::RangeInclusive<u64>,
}

/// A run to make.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// What moves the data.
    pub variant: &'static str,
    /// The load.
    pub load: Load,
    /// The seed.
    pub seed: u64,
    /// Operations per second of an open loop.
    pub rate: Option<f64>,
}

impl Size {
    fn plan(&self, run: &Run) -> Plan {
        let mut machines = self.machines;
        let share = f64::from(run.load.source_percent) / 100.0;
        if share < 1.0 {
            machines.source.quota = Some(Share::of(machines.source.processors() * share));
        }
        Plan {
            machines,
            costs: self.costs,
            protocol: run.variant.to_owned(),
            policy: MigrationPolicy::Adaptive,
            records: self.records,
            sample: self.sample,
            key_bytes: KEY_BYTES,
            value_bytes: VALUE_BYTES,
            workload: run.load.workload(),
            distribution: run.load.distribution(),
            clients: self.clients,
            rate: run.rate,
            tracking: true,
            before_ns: BEFORE_NS,
            after_ns: AFTER_NS,
            seed: run.seed,
        }
    }
}

/// The finished runs.
#[derive(Debug, Default)]
pub struct Made {
    /// Variants under loads, in their order.
    pub rows: Vec<Row>,
    /// Runs that failed, or answered wrongly, with the reason.
    pub failed: Vec<String>,
}

/// Makes all runs of these variants under these loads, `jobs` at a time. `done` is called after each with how
/// many are made, of how many.
pub fn make(
    size: &Size,
    variants: &[&'static str],
    loads: &[Load],
    jobs: usize,
    stop: &AtomicBool,
    done: &(dyn Fn(usize, usize) + Sync),
) -> Made {
    let mut made = Made::default();
    let (closed, open): (Vec<Load>, Vec<Load>) = loads.iter().partition(|load| load.rate_percent.is_none());
    let of = |loads: &[Load]| -> Vec<Run> {
        let rows = loads.iter().flat_map(|&load| variants.iter().map(move |&variant| (variant, load)));
        let run = |(variant, load), seed| Run { variant, load, seed, rate: None };
        rows.flat_map(|row| size.seeds.clone().map(move |seed| run(row, seed))).collect()
    };
    let mut open = of(&open);
    let all = of(&closed).len() + open.len();
    made.take(together(size, &of(&closed), jobs, stop, &|number| done(number, all)));
    open.retain_mut(|run| {
        run.rate = made.rate_of(run);
        run.rate.is_some()
    });
    let before = all - open.len();
    made.take(together(size, &open, jobs, stop, &|number| done(before + number, all)));
    made
}

impl Made {
    /// The rate of an open loop, by what its closed loop reached before its move.
    fn rate_of(&self, run: &Run) -> Option<f64> {
        let closed = run.load.closed();
        let mut rows = self.rows.iter().filter(|row| row.load == closed);
        let reached = rows.find_map(|row| {
            let report = row.reports.iter().find(|report| report.seed == run.seed)?;
            report.throughput.before
        })?;
        Some(reached * f64::from(run.load.rate_percent?) / 100.0)
    }

    fn take(&mut self, reports: Vec<(Run, Result<Report, String>)>) {
        for (run, report) in reports {
            let name = format!("{}: {}, seed {}", run.variant, run.load.title(), run.seed);
            let report = match report {
                Ok(report) => report,
                Err(why) => {
                    self.failed.push(format!("{name}: {why}"));
                    continue;
                }
            };
            if report.wrong_values > 0 {
                self.failed.push(format!("{name}: {} wrong values", report.wrong_values));
            }
            let is_last = |row: &&mut Row| row.variant == run.variant && row.load == run.load;
            match self.rows.last_mut().filter(is_last) {
                Some(row) => row.reports.push(report),
                None => {
                    self.rows.push(Row { variant: run.variant, load: run.load, reports: vec![report] });
                }
            }
        }
    }
}

/// Makes runs, each on one of `jobs` threads; returns them in their order.
fn together(
    size: &Size,
    runs: &[Run],
    jobs: usize,
    stop: &AtomicBool,
    done: &(dyn Fn(usize) + Sync),
) -> Vec<(Run, Result<Report, String>)> {
    let (next, finished) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let reports: Mutex<Vec<Option<Result<Report, String>>>> = Mutex::new(vec![None; runs.len()]);
    let work = || {
        while let Some((place, run)) = Some(next.fetch_add(1, Relaxed)).and_then(|n| Some((n, runs.get(n)?)))
        {
            let report = sidle_model::run(&size.plan(run), |_| !stop.load(Relaxed));
            let report = report.map_err(|error| error.to_string());
            reports.lock().unwrap_or_else(std::sync::PoisonError::into_inner)[place] = Some(report);
            done(finished.fetch_add(1, Relaxed) + 1);
        }
    };
    std::thread::scope(|scope| (0..jobs.max(1)).for_each(|_| drop(scope.spawn(work))));
    let reports = reports.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    runs.iter().copied().zip(reports.into_iter().flatten()).collect()
}
