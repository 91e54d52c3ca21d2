//! The processor time of a request and of moving a record on this machine: two nodes under a demonstration's
//! load, before and while half of the records move.

use sidle_bench::control::{Control, PATIENCE_UNDER_LOAD};
use sidle_bench::demo::{Course, DemoError, DemoOptions, NodePair, loaded_world};
use sidle_bench::load::{Measured, ProbeGaps, World, run_workload};
use sidle_bench::machine::{first_thread_cpu_seconds, own_cpu_seconds, threads_cpu_seconds};
use sidle_bench::quota::Quotas;
use sidle_bench::spread::Spread;
use sidle_bench::terminal::Terminal;
use sidle_bench::timeline::WINDOW_NS;
use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// How long the load runs before the move's margins.
const STEADY: Duration = Duration::from_secs(2);
/// How long it runs right before the move, and after it, when the source releases the moved records and
/// workers share the cores.
pub(crate) const MARGIN: Duration = Duration::from_secs(1);
/// The names of a node's migration threads.
const MOVERS: &str = "mover-";
/// The name of the coordinator's thread, on one node.
const COORDINATOR: &str = "coordinator";
/// The names of serving threads.
const WORKERS: &str = "worker-";
/// Windows of the steady load until all clients are active.
const WARM_UP_WINDOWS: usize = 2;

/// Processor time, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RealCosts {
    /// Per operation, at the node that serves it.
    pub(crate) node_ns: f64,
    /// Per operation, at the clients.
    pub(crate) client_ns: f64,
    /// An operation's cost after the move, at the workers of both nodes, relative to its cost at the source
    /// before the move.
    pub(crate) after_by_before: f64,
    /// Per KiB of moved records, at the source's movers.
    pub(crate) pack_ns_per_kib: f64,
    /// The same for their release.
    pub(crate) release_ns_per_kib: f64,
    /// Per KiB of moved records, at the target's movers.
    pub(crate) replay_ns_per_kib: f64,
    /// Of both nodes' control threads and the coordinator's, from the request to move to the reply that the
    /// move is over.
    pub(crate) control_ns: f64,
    /// The machine's noise: the standard deviation of operations per 100 ms, relative to their mean.
    pub(crate) noise: f64,
    /// The part of a processor that each node could use, if limited.
    pub(crate) node_share: Option<f64>,
}

/// A measurement, and whether the machine's host disturbed it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Measurement {
    /// The result.
    pub(crate) costs: RealCosts,
    /// See [`Disturbance::is_much`](sidle_bench::report::Disturbance::is_much).
    pub(crate) is_disturbed: bool,
}

/// Measures with the options' protocol. `share`: the part of a processor for each node, where the system can
/// limit it.
///
/// # Errors
/// [`DemoError`]: what could not be started or counted.
pub(crate) fn measure(
    options: &DemoOptions,
    share: f64,
    terminal: &Terminal,
    stop: &AtomicBool,
) -> Result<Measurement, DemoError> {
    let options = &DemoOptions { margin: MARGIN, ..options.clone() };
    let mut quotas = Quotas::new().ok();
    let nodes = NodePair::start(options)?;
    let world = loaded_world(options, &nodes, terminal, stop)?;
    if let Some(quotas) = &mut quotas {
        for (name, node) in [("source", &nodes.source), ("target", &nodes.target)] {
            quotas.limit(name, node.pid(), share).map_err(DemoError::Options)?;
        }
    }
    // With a prober, like a demonstration: its cost counts with the load's operations.
    let gaps = ProbeGaps::default();
    let steady = Steady::measured(&world, &nodes, &gaps)?;
    let control = Control::connect(&nodes.source.address(), None)?.with_patience(PATIENCE_UNDER_LOAD)?;
    let course = Course::new(&world, options, &nodes, control, &gaps, terminal);
    let moving = Moving::measured(&world, &nodes, &gaps, course)?;

    let operations = (steady.load.totals.reads + steady.load.totals.writes) as f64;
    if operations == 0.0 || moving.moved_kib == 0.0 {
        return Err(DemoError::Node("the node served or moved nothing".to_owned()));
    }
    let costs = RealCosts {
        node_ns: steady.node_ns / operations,
        client_ns: steady.client_ns / operations,
        after_by_before: moving.after_ns / (steady.workers_ns / operations),
        pack_ns_per_kib: moving.pack_ns / moving.moved_kib,
        replay_ns_per_kib: moving.replay_ns / moving.moved_kib,
        release_ns_per_kib: moving.release_ns / moving.moved_kib,
        control_ns: moving.control_ns,
        noise: noise(&steady.load),
        node_share: quotas.map(|_| share),
    };
    let is_disturbed = steady.load.disturbance.is_much() || moving.load.disturbance.is_much();
    Ok(Measurement { costs, is_disturbed })
}

/// What some threads of the source and of the target have used, in seconds.
type Used = Option<[f64; 2]>;

fn of_both(nodes: &NodePair, of: impl Fn(u32) -> Option<f64>) -> Used {
    Some([of(nodes.source.pid())?, of(nodes.target.pid())?])
}

fn by_workers(nodes: &NodePair) -> Used {
    of_both(nodes, |pid| threads_cpu_seconds(pid, WORKERS))
}

fn by_movers(nodes: &NodePair) -> Used {
    of_both(nodes, |pid| threads_cpu_seconds(pid, MOVERS))
}

/// The coordinator is on one of them.
fn by_control(nodes: &NodePair) -> Used {
    of_both(nodes, |pid| {
        Some(first_thread_cpu_seconds(pid)? + threads_cpu_seconds(pid, COORDINATOR).unwrap_or(0.0))
    })
}

/// The load before anything moves.
struct Steady {
    load: Measured,
    /// What the source used, and its workers of that, and the clients.
    node_ns: f64,
    workers_ns: f64,
    client_ns: f64,
}

impl Steady {
    fn measured(world: &World<'_>, nodes: &NodePair, gaps: &ProbeGaps) -> Result<Steady, DemoError> {
        let used = || Some([nodes.source.cpu_seconds()?, own_cpu_seconds()?]);
        let (begun, workers_begun) = (used(), by_workers(nodes));
        let load = run_workload(world, Some(gaps), |tick, _| {
            let is_over = tick.elapsed_ns >= STEADY.as_nanos() as u64;
            if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        let [node_ns, client_ns] = between(begun, used())?;
        let [workers_ns, _] = between(workers_begun, by_workers(nodes))?;
        Ok(Steady { load, node_ns, workers_ns, client_ns })
    }
}

/// The load while half of the records move, and after it.
struct Moving {
    load: Measured,
    moved_kib: f64,
    pack_ns: f64,
    replay_ns: f64,
    release_ns: f64,
    control_ns: f64,
    /// Of an operation after the move, at the workers of both nodes.
    after_ns: f64,
}

impl Moving {
    fn measured(
        world: &World<'_>,
        nodes: &NodePair,
        gaps: &ProbeGaps,
        mut course: Course<'_>,
    ) -> Result<Moving, DemoError> {
        let begun = by_movers(nodes);
        let (mut control_begun, mut controlled, mut moved_by) = (None, None, None);
        // At every look since the move: what both nodes' workers had used, and what had been served.
        let mut since: Vec<(Used, u64)> = Vec::new();
        let load = run_workload(world, Some(gaps), |tick, timeline| {
            if course.is_before() {
                control_begun = by_control(nodes);
            } else if course.is_after() {
                since.push((by_workers(nodes), tick.operations));
            }
            let verdict = course.tick(tick, timeline);
            if course.is_after() && moved_by.is_none() {
                (moved_by, controlled) = (by_movers(nodes), by_control(nodes));
            }
            verdict
        })?;
        let moved = course.finish()?;
        if world.is_stopping() {
            return Err(DemoError::Interrupted);
        }
        let [pack_ns, replay_ns] = between(begun, moved_by)?;
        let [release_ns, _] = between(moved_by, by_movers(nodes))?;
        let control_ns = between(control_begun, controlled)?.iter().sum();
        let [(first, served_by), .., (last, served)] = since[..] else {
            return Err(DemoError::Node("the load did not outlast the move".to_owned()));
        };
        let after_ns = between(first, last)?.iter().sum::<f64>() / (served - served_by).max(1) as f64;
        let moved_kib = moved.bytes as f64 / 1024.0;
        Ok(Moving { load, moved_kib, pack_ns, replay_ns, release_ns, control_ns, after_ns })
    }
}

/// Measures several things alternately, so that drift affects all alike, and returns the medians of each.
/// Rounds that the host disturbed are repeated, at most as often as there are rounds. They count only if
/// there is no other.
///
/// # Errors
/// The first error of a measurement.
///
/// # Panics
/// If `rounds` is 0.
pub(crate) fn medians<const THINGS: usize>(
    rounds: usize,
    mut measure: impl FnMut() -> Result<[Measurement; THINGS], DemoError>,
) -> Result<[RealCosts; THINGS], DemoError> {
    let (mut quiet, mut disturbed) = (Vec::new(), Vec::new());
    while quiet.len() < rounds && quiet.len() + disturbed.len() < 2 * rounds {
        let round = measure()?;
        let is_disturbed = round.iter().any(|measurement| measurement.is_disturbed);
        let kept = if is_disturbed { &mut disturbed } else { &mut quiet };
        kept.push(round.map(|measurement| measurement.costs));
    }
    let rounds = if quiet.is_empty() { disturbed } else { quiet };
    Ok(std::array::from_fn(|thing| median(rounds.iter().map(|round| round[thing]).collect())))
}

/// The median of each cost.
fn median(all: Vec<RealCosts>) -> RealCosts {
    let median =
        |of: fn(&RealCosts) -> f64| Spread::of(all.iter().map(of)).expect("there was a round").median;
    RealCosts {
        node_ns: median(|costs| costs.node_ns),
        client_ns: median(|costs| costs.client_ns),
        after_by_before: median(|costs| costs.after_by_before),
        pack_ns_per_kib: median(|costs| costs.pack_ns_per_kib),
        replay_ns_per_kib: median(|costs| costs.replay_ns_per_kib),
        release_ns_per_kib: median(|costs| costs.release_ns_per_kib),
        control_ns: median(|costs| costs.control_ns),
        noise: median(|costs| costs.noise),
        node_share: all[0].node_share,
    }
}

/// How much the whole windows of a steady load differ.
fn noise(steady: &Measured) -> f64 {
    let whole = (steady.elapsed_ns / WINDOW_NS) as usize;
    let points = steady.timeline.points(false, false);
    let windows: Vec<f64> =
        points.iter().take(whole).skip(WARM_UP_WINDOWS).map(|point| point.operations as f64).collect();
    coefficient_of_variation(&windows)
}

/// Standard deviation relative to the mean.
fn coefficient_of_variation(of: &[f64]) -> f64 {
    let count = of.len().max(1) as f64;
    let mean = of.iter().sum::<f64>() / count;
    let variance = of.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
    if mean > 0.0 { variance.sqrt() / mean } else { 0.0 }
}

/// Nanoseconds between two readings in seconds.
fn between(begun: Option<[f64; 2]>, ended: Option<[f64; 2]>) -> Result<[f64; 2], DemoError> {
    let unknown = || DemoError::Options("this system does not report how busy a thread was".to_owned());
    let (begun, ended) = begun.zip(ended).ok_or_else(unknown)?;
    Ok([0, 1].map(|index| (ended[index] - begun[index]) * 1e9))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs(ns: f64) -> RealCosts {
        RealCosts {
            node_ns: ns,
            client_ns: 2.0 * ns,
            after_by_before: 4.0 * ns,
            pack_ns_per_kib: -ns,
            replay_ns_per_kib: 7.0,
            release_ns_per_kib: 3.0 * ns,
            control_ns: 5.0 * ns,
            noise: 9.0 * ns,
            node_share: Some(0.4),
        }
    }

    /// The medians of measurements, given as results with whether the host disturbed them; and how many were
    /// made.
    fn medians_of(rounds: usize, seen: &[(f64, bool)]) -> (RealCosts, usize) {
        let mut made = 0;
        let [medians] = medians(rounds, || {
            let (ns, is_disturbed) = seen[made];
            made += 1;
            Ok([Measurement { costs: costs(ns), is_disturbed }])
        })
        .expect("all can be measured");
        (medians, made)
    }

    #[test]
    fn an_outlier_does_not_count() {
        assert_eq!(medians_of(3, &[(10.0, false), (90.0, false), (11.0, false)]), (costs(11.0), 3));
        let interrupted = medians::<1>(3, || Err(DemoError::Interrupted));
        assert!(matches!(interrupted, Err(DemoError::Interrupted)));
    }

    #[test]
    fn a_disturbed_round_is_repeated() {
        let seen = [(90.0, true), (10.0, false), (91.0, true), (11.0, false), (12.0, false)];
        assert_eq!(medians_of(3, &seen), (costs(11.0), 5));
        assert_eq!(medians_of(2, &[(9.0, true), (8.0, true), (7.0, true), (5.0, false)]), (costs(5.0), 4));
        assert_eq!(medians_of(1, &[(9.0, true), (8.0, true)]), (costs(8.5), 2), "there is no other round");
    }

    #[test]
    fn noise_is_the_variation_of_windows() {
        assert_eq!(coefficient_of_variation(&[9.0, 11.0, 9.0, 11.0]), 0.1);
        assert_eq!(coefficient_of_variation(&[]), 0.0);
        assert_eq!(coefficient_of_variation(&[0.0, 0.0]), 0.0);
    }

    #[test]
    fn measurements_alternate_and_a_disturbed_one_spoils_its_round() {
        let mut rounds = [[(1.0, false), (90.0, true)], [(2.0, false), (20.0, false)]].into_iter();
        let both = medians(1, || {
            let round = rounds.next().expect("the second counts");
            Ok(round.map(|(ns, is_disturbed)| Measurement { costs: costs(ns), is_disturbed }))
        });
        assert_eq!(both.expect("all can be measured"), [costs(2.0), costs(20.0)]);
    }
}
