//! What a request, and moving a record, takes in processor time here: two nodes under a demonstration's load,
//! before and while half of the records move.

use crate::control::{Control, PATIENCE_UNDER_LOAD};
use crate::demo::{Course, DemoError, DemoOptions, NodePair, loaded_world};
use crate::lab::Spread;
use crate::load::{Measured, ProbeGaps, run_workload};
use crate::machine::{first_thread_cpu_seconds, own_cpu_seconds, threads_cpu_seconds};
use crate::quota::Quotas;
use crate::terminal::Terminal;
use crate::timeline::WINDOW_NS;
use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// How long the load lasts before anything moves.
const STEADY: Duration = Duration::from_secs(2);
/// And right before the move, and after it, when the source gives back what it has moved and workers take
/// turns on the cores.
pub const MARGIN: Duration = Duration::from_secs(1);
/// What a node's migration threads are called.
const MOVERS: &str = "mover-";
/// The coordinator's, on one of them.
const COORDINATOR: &str = "coordinator";
/// And those that serve.
const WORKERS: &str = "worker-";
/// Windows of the steady load until all clients are at it.
const WARM_UP_WINDOWS: usize = 2;

/// Processor time, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RealCosts {
    /// Of an operation, at the node that serves it.
    pub node_ns: f64,
    /// Of an operation, at the clients.
    pub client_ns: f64,
    /// Of an operation after the move, at the workers of both nodes, by what one takes at the source's before
    /// it.
    pub after_by_before: f64,
    /// Of a KiB of moved records, at the source's movers.
    pub pack_ns_per_kib: f64,
    /// Of the same when it is given back.
    pub release_ns_per_kib: f64,
    /// Of a KiB of moved records, at the target's movers.
    pub replay_ns_per_kib: f64,
    /// Of both nodes' control threads and the coordinator's, from the request to move to the answer that the
    /// move is over.
    pub control_ns: f64,
    /// The machine's noise: the standard deviation of what was served in windows of 100 ms, by their mean.
    pub noise: f64,
    /// The part of a processor that each node could use, if that was limited.
    pub node_share: Option<f64>,
}

/// What was measured, and whether it says more of the machine's host than of the nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measurement {
    /// What it came to.
    pub costs: RealCosts,
    /// See [`Disturbance::is_much`](crate::report::Disturbance::is_much).
    pub is_disturbed: bool,
}

/// Measures it with the options' protocol. `share`: of a processor, for each node, where the system lets it
/// be limited.
///
/// # Errors
/// [`DemoError`] says what could not be started or counted.
pub fn measure(
    options: &DemoOptions,
    share: f64,
    terminal: &Terminal,
    stop: &AtomicBool,
) -> Result<Measurement, DemoError> {
    let options = &DemoOptions { margin: MARGIN, ..options.clone() };
    let mut quotas = Quotas::new().ok();
    let nodes = NodePair::start(options, options.node_memory_bytes(options.records))?;
    let world = loaded_world(options, options.records, &nodes, terminal, stop)?;
    if let Some(quotas) = &mut quotas {
        for (name, node) in [("source", &nodes.source), ("target", &nodes.target)] {
            quotas.limit(name, node.pid(), share).map_err(DemoError::Options)?;
        }
    }
    let used = || Some([nodes.source.cpu_seconds()?, own_cpu_seconds()?]);
    let both = |of: &dyn Fn(u32) -> Option<f64>| Some([of(nodes.source.pid())?, of(nodes.target.pid())?]);
    let used_by_workers = || both(&|pid| threads_cpu_seconds(pid, WORKERS));
    let (begun, workers_begun) = (used(), used_by_workers());
    // With a prober, as a demonstration has one: what it takes goes with the operations of the load.
    let gaps = ProbeGaps::default();
    let steady = run_workload(&world, Some(&gaps), |tick, _| {
        let is_over = tick.elapsed_ns >= STEADY.as_nanos() as u64;
        if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    let [node_ns, client_ns] = between(begun, used())?;
    let [before_ns, _] = between(workers_begun, used_by_workers())?;

    let used = || both(&|pid| threads_cpu_seconds(pid, MOVERS));
    let used_by_control = || {
        both(&|pid| {
            Some(first_thread_cpu_seconds(pid)? + threads_cpu_seconds(pid, COORDINATOR).unwrap_or(0.0))
        })
    };
    let begun = used();
    let mut control_begun = None;
    let mut controlled_by = None;
    let control = Control::connect(&nodes.source.address(), None)?.with_patience(PATIENCE_UNDER_LOAD)?;
    let mut course = Course::new(&world, options, &nodes, control, &gaps, terminal);
    let mut moved_by = None;
    // At every look since the move: what both nodes' workers had used, and what had been served.
    let mut since: Vec<(Option<[f64; 2]>, u64)> = Vec::new();
    let moving = run_workload(&world, Some(&gaps), |tick, timeline| {
        if course.is_before() {
            control_begun = used_by_control();
        } else if course.is_after() {
            since.push((used_by_workers(), tick.operations));
        }
        let verdict = course.tick(tick, timeline);
        if course.is_after() && moved_by.is_none() {
            (moved_by, controlled_by) = (used(), used_by_control());
        }
        verdict
    })?;
    let moved = course.finish()?;
    if world.is_stopping() {
        return Err(DemoError::Interrupted);
    }
    let [pack_ns, replay_ns] = between(begun, moved_by)?;
    let [release_ns, _] = between(moved_by, used())?;
    let control_ns = between(control_begun, controlled_by)?.iter().sum();
    let [(first, served_by), .., (last, served)] = since[..] else {
        return Err(DemoError::Node("the load did not outlast the move".to_owned()));
    };
    let after_ns = between(first, last)?.iter().sum::<f64>() / (served - served_by).max(1) as f64;

    let operations = (steady.totals.reads + steady.totals.writes) as f64;
    let moved_kib = moved.bytes as f64 / 1024.0;
    if operations == 0.0 || moved_kib == 0.0 {
        return Err(DemoError::Node("the node served or moved nothing".to_owned()));
    }
    let costs = RealCosts {
        node_ns: node_ns / operations,
        client_ns: client_ns / operations,
        after_by_before: after_ns / (before_ns / operations),
        pack_ns_per_kib: pack_ns / moved_kib,
        replay_ns_per_kib: replay_ns / moved_kib,
        release_ns_per_kib: release_ns / moved_kib,
        control_ns,
        noise: noise(&steady),
        node_share: quotas.map(|_| share),
    };
    Ok(Measurement { costs, is_disturbed: steady.disturbance.is_much() || moving.disturbance.is_much() })
}

/// Measures several things in turns, so that what drifts hits all alike, and gives the medians of each.
/// Rounds that the host disturbed are made again, as often as there are to be rounds, and count only where
/// there is no other.
///
/// # Errors
/// The first measurement's that fails.
///
/// # Panics
/// When there are to be no rounds.
pub fn medians<const THINGS: usize>(
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

/// Standard deviation by mean.
fn coefficient_of_variation(of: &[f64]) -> f64 {
    let count = of.len().max(1) as f64;
    let mean = of.iter().sum::<f64>() / count;
    let variance = of.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
    if mean > 0.0 { variance.sqrt() / mean } else { 0.0 }
}

/// Nanoseconds between two readings in seconds.
fn between(begun: Option<[f64; 2]>, ended: Option<[f64; 2]>) -> Result<[f64; 2], DemoError> {
    let untold = || DemoError::Options("this system does not tell how busy a thread was".to_owned());
    let (begun, ended) = begun.zip(ended).ok_or_else(untold)?;
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

    /// The medians of measurements, given as what they came to and whether the host disturbed them, and how
    /// many were made.
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
    fn a_round_that_the_host_disturbed_is_made_again() {
        let seen = [(90.0, true), (10.0, false), (91.0, true), (11.0, false), (12.0, false)];
        assert_eq!(medians_of(3, &seen), (costs(11.0), 5));
        assert_eq!(medians_of(2, &[(9.0, true), (8.0, true), (7.0, true), (5.0, false)]), (costs(5.0), 4));
        assert_eq!(medians_of(1, &[(9.0, true), (8.0, true)]), (costs(8.5), 2), "there is no other");
    }

    #[test]
    fn noise_is_what_windows_differ_by() {
        assert_eq!(coefficient_of_variation(&[9.0, 11.0, 9.0, 11.0]), 0.1);
        assert_eq!(coefficient_of_variation(&[]), 0.0);
        assert_eq!(coefficient_of_variation(&[0.0, 0.0]), 0.0);
    }

    #[test]
    fn things_are_measured_in_turns_and_one_that_is_disturbed_spoils_its_round() {
        let mut rounds = [[(1.0, false), (90.0, true)], [(2.0, false), (20.0, false)]].into_iter();
        let both = medians(1, || {
            let round = rounds.next().expect("the second counts");
            Ok(round.map(|(ns, is_disturbed)| Measurement { costs: costs(ns), is_disturbed }))
        });
        assert_eq!(both.expect("all can be measured"), [costs(2.0), costs(20.0)]);
    }
}
