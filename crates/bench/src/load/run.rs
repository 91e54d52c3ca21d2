//! A run's phases: loading, the measured load, reading back.

use crate::gap::GapMeter;
use crate::load::collector::{Collector, Meter, Totals};
use crate::load::feed::{Feed, Sweep};
use crate::load::plan::{Pacing, World};
use crate::load::thread::{Task, Thread};
use crate::machine::raise_own_priority;
use crate::report::{Disturbance, Gap, Percentiles};
use crate::timeline::{Part, Piece, Recorder, Timeline, WINDOW_NS, Window};
use crate::words::{micros, rate};
use std::fmt;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How often the caller is shown the progress, from the beginning of one tick to that of the next.
pub const LOAD_TICK: Duration = Duration::from_millis(25);
/// How often unanswered reads are repeated on reading back, and after which pause.
const READ_BACK_TRIES: u32 = 3;
const READ_BACK_PAUSE: Duration = Duration::from_secs(1);
/// More records than this are not read again: then a node is missing, not an answer.
const RETRIED_MAX: usize = 100_000;
/// The fewest operations that clients have under way while loading and reading back.
const BULK_OUTSTANDING: u32 = 64;

/// A load's progress.
#[derive(Clone, Copy, Debug)]
pub struct Tick {
    /// When the load began, on the world's clock, in nanoseconds.
    pub started_ns: u64,
    /// Nanoseconds since then.
    pub elapsed_ns: u64,
    /// Operations of the load that have ended; a prober's do not count.
    pub operations: u64,
    /// Operations per second in the last whole window.
    pub recent_rate: Option<f64>,
    /// Latencies of the reads of the last whole window.
    pub recent_reads: Option<Percentiles>,
}

/// As a line that changes shows it.
impl fmt::Display for Tick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.recent_rate.map_or_else(|| "starting".to_owned(), rate))?;
        match self.recent_reads {
            Some(reads) => write!(f, ", reads p50 {} p99 {}", micros(reads.p50), micros(reads.p99)),
            None => Ok(()),
        }
    }
}

/// A caller's answer to a tick.
pub type Verdict = ControlFlow<()>;

/// The results of a measured load.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Windows of 100 ms.
    pub timeline: Timeline,
    /// Counts of all threads.
    pub totals: Totals,
    /// How long it lasted.
    pub elapsed_ns: u64,
    /// The time that the machine's host took from it.
    pub disturbance: Disturbance,
}

/// A prober's gaps.
#[derive(Debug, Default)]
pub struct ProbeGaps {
    reads: GapMeter,
    writes: GapMeter,
}

impl ProbeGaps {
    /// Starts a watch.
    pub fn watch(&self) {
        self.reads.watch();
        self.writes.watch();
    }

    /// The longest gaps of the watch.
    pub fn longest(&self, now_ns: u64) -> Gap {
        Gap { reads: self.reads.longest_ms(now_ns), writes: self.writes.longest_ms(now_ns), ..Gap::default() }
    }
}

/// Writes every record once. `progress` receives how many were begun.
pub fn load_records(world: &World<'_>, progress: impl FnMut(u64)) -> std::io::Result<Totals> {
    sweep(world, Sweep::new(world.plan.records), true, progress)
}

/// Reads every record once: wrong answers are records whose last acknowledged write is lost. An unanswered
/// read is repeated, and counts as an error only if that fails too.
pub fn read_back(world: &World<'_>, progress: impl FnMut(u64)) -> std::io::Result<Totals> {
    let mut totals = sweep(world, Sweep::new(world.plan.records), false, progress)?;
    for _ in 0..READ_BACK_TRIES {
        if totals.missed.is_empty() || totals.missed.len() > RETRIED_MAX || world.is_stopping() {
            break;
        }
        std::thread::sleep(READ_BACK_PAUSE);
        totals.errors.clear();
        totals.troubles.clear();
        let missed = std::mem::take(&mut totals.missed);
        totals.add(&sweep(world, Sweep::of(missed), false, |_| {})?);
    }
    Ok(totals)
}

fn sweep(
    world: &World<'_>,
    sweep: Sweep,
    write: bool,
    mut progress: impl FnMut(u64),
) -> std::io::Result<Totals> {
    let plan = &world.plan;
    let end = AtomicBool::new(false);
    let outstanding = plan.outstanding.max(BULK_OUTSTANDING);
    std::thread::scope(|scope| {
        let threads: Vec<_> = shares(plan.clients, plan.threads)
            .map(|(first_client, clients)| {
                let (sweep, end) = (&sweep, &end);
                scope.spawn(move || {
                    let feed = Feed::Sweep { sweep, chunk: 0..0, write };
                    let task = Task { clients, outstanding, pacing: Pacing::Closed, feed, end };
                    let collector = Collector::new(world, Meter::Nobody, clients, outstanding, first_client);
                    Thread::new(world, task, collector)?.run()
                })
            })
            .collect();
        while threads.iter().any(|thread| !thread.is_finished()) {
            std::thread::sleep(LOAD_TICK);
            progress(sweep.done());
        }
        join(threads)
    })
}

/// Each thread's first client and number of clients.
fn shares(clients: u32, threads: u32) -> impl Iterator<Item = (u32, u32)> {
    let threads = threads.clamp(1, clients);
    (0..threads).map(move |thread| {
        let at = |thread: u32| (u64::from(clients) * u64::from(thread) / u64::from(threads)) as u32;
        (at(thread), at(thread + 1) - at(thread))
    })
}

type Joined<'s> = std::thread::ScopedJoinHandle<'s, std::io::Result<Totals>>;

fn join(threads: Vec<Joined<'_>>) -> std::io::Result<Totals> {
    let mut totals = Totals::default();
    for thread in threads {
        totals.add(&thread.join().expect("a load thread does not panic")?);
    }
    Ok(totals)
}

/// Makes the workload until `tick` stops it. With `probe`, a prober works beside it on moving keys.
pub fn run_workload(
    world: &World<'_>,
    probe: Option<&ProbeGaps>,
    tick: impl FnMut(Tick, &mut Timeline) -> Verdict,
) -> std::io::Result<Measured> {
    let plan = &world.plan;
    let end = AtomicBool::new(false);
    let start_ns = world.enter(Part::Before);
    let (sink, windows) = channel();
    std::thread::scope(|scope| {
        let threads: Vec<_> = shares(plan.clients, plan.threads)
            .enumerate()
            .map(|(thread, (first_client, clients))| {
                let recorder = Box::new(Recorder::new(sink.clone()));
                let end = &end;
                scope.spawn(move || {
                    let pacing = match plan.pacing {
                        Pacing::Open(rate) => {
                            Pacing::Open(rate * f64::from(clients) / f64::from(plan.clients))
                        }
                        other => other,
                    };
                    let feed = Feed::workload(world, thread as u32);
                    let task = Task { clients, outstanding: plan.outstanding, pacing, feed, end };
                    let meter = Meter::Load { recorder, start_ns };
                    let collector = Collector::new(world, meter, clients, plan.outstanding, first_client);
                    Thread::new(world, task, collector)?.run()
                })
            })
            .collect();
        drop(sink);
        let host = scope.spawn(|| crate::host::watch(&end));
        let prober = probe.map(|gaps| scope.spawn(|| run_probe(world, gaps, &end)));
        let mut timeline = watch(world, start_ns, &windows, tick);
        end.store(true, Ordering::Relaxed);
        let elapsed_ns = world.now_ns() - start_ns;
        let mut totals = join(threads)?;
        if let Some(prober) = prober {
            // The prober's wrong answers and errors count like any other; its operations are not load.
            let probed = prober.join().expect("the prober does not panic")?;
            totals.add(&Totals { reads: 0, writes: 0, ..probed });
        }
        windows.try_iter().for_each(|(piece, window)| timeline.add(piece, &window));
        timeline.truncate(elapsed_ns);
        let disturbance = host.join().expect("the watcher does not panic");
        Ok(Measured { timeline, totals, elapsed_ns, disturbance })
    })
}

/// Gathers windows and shows the caller the progress, until the caller stops the load.
fn watch(
    world: &World<'_>,
    start_ns: u64,
    windows: &Receiver<(Piece, Window)>,
    mut tick: impl FnMut(Tick, &mut Timeline) -> Verdict,
) -> Timeline {
    let mut timeline = Timeline::default();
    let ended_before = world.ended.load(Ordering::Relaxed);
    let mut deadline = Instant::now();
    loop {
        // The caller's own time counts: if it waits for something in a tick, the next one follows at once.
        deadline = Instant::now().max(deadline + LOAD_TICK);
        loop {
            match windows.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok((piece, window)) => timeline.add(piece, &window),
                Err(RecvTimeoutError::Timeout) => break,
                // All threads have ended by themselves: an error, which joining them returns.
                Err(RecvTimeoutError::Disconnected) => return timeline,
            }
        }
        let elapsed_ns = world.now_ns() - start_ns;
        let last_whole = (elapsed_ns / WINDOW_NS).checked_sub(2);
        let recent = last_whole.and_then(|number| timeline.seen_in(number));
        let now = Tick {
            started_ns: start_ns,
            elapsed_ns,
            operations: world.ended.load(Ordering::Relaxed) - ended_before,
            recent_rate: recent.map(|(rate, _)| rate),
            recent_reads: recent.and_then(|(_, reads)| reads),
        };
        if tick(now, &mut timeline).is_break() || world.is_stopping() {
            return timeline;
        }
    }
}

/// How many records the prober cycles through.
pub const PROBED_RECORDS: usize = 512;

/// How much higher the prober's priority is than the load's, if the system allows that: it measures
/// how long nodes keep it waiting, not how long the load keeps it from a core.
const PROBE_NICENESS: i32 = -15;

/// The prober's operations per second. Back to back they would take a core, and with it measured
/// capacity.
pub const PROBES_PER_S: f64 = 5_000.0;

/// One client, one operation at a time, a read and then a write, in turn.
fn run_probe(world: &World<'_>, gaps: &ProbeGaps, end: &AtomicBool) -> std::io::Result<Totals> {
    // Without that right the prober is delayed like the load.
    raise_own_priority(PROBE_NICENESS);
    let feed = Feed::Probe { records: world.moving_records(PROBED_RECORDS), turn: 0 };
    let task = Task { clients: 1, outstanding: 1, pacing: Pacing::Open(PROBES_PER_S), feed, end };
    let meter = Meter::Probe { reads: &gaps.reads, writes: &gaps.writes };
    let collector = Collector::new(world, meter, 1, 1, world.plan.clients);
    Thread::new(world, task, collector)?.run()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_cover_all_clients() {
        for (clients, threads) in [(1, 1), (8, 2), (7, 3), (2, 5)] {
            let shares: Vec<_> = shares(clients, threads).collect();
            assert_eq!(shares.iter().map(|&(_, count)| count).sum::<u32>(), clients);
            assert!(shares.iter().all(|&(_, count)| count > 0), "{shares:?}");
            assert!(shares.windows(2).all(|pair| pair[0].0 + pair[0].1 == pair[1].0), "{shares:?}");
        }
    }
}
