//! What a request, and moving a record, takes in processor time here: two nodes under a demonstration's load, before and while half of
//! the records move.

use crate::control::Control;
use crate::demo::{Course, DemoError, DemoOptions, NodePair, loaded_world};
use crate::load::{ProbeGaps, run_workload};
use crate::machine::{own_cpu_seconds, threads_cpu_seconds};
use crate::quota::Quotas;
use crate::terminal::Terminal;
use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// How long the load lasts before anything moves.
const STEADY: Duration = Duration::from_secs(2);
/// And right before the move, and after it.
const MARGIN: Duration = Duration::from_millis(200);
/// What a node's migration threads are called.
const MOVERS: &str = "mover-";

/// Processor time, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RealCosts {
    /// Of an operation, at the node that serves it.
    pub node_ns: f64,
    /// Of an operation, at the clients.
    pub client_ns: f64,
    /// Of a KiB of moved records, at the source's movers.
    pub pack_ns_per_kib: f64,
    /// Of a KiB of moved records, at the target's movers.
    pub replay_ns_per_kib: f64,
    /// The part of a processor that each node could use, if that was limited.
    pub node_share: Option<f64>,
}

/// Measures it with the options' protocol. `share`: of a processor, for each node, where the system lets it be limited.
///
/// # Errors
/// [`DemoError`] says what could not be started or counted.
pub fn measure(
    options: &DemoOptions,
    share: f64,
    terminal: &Terminal,
    stop: &AtomicBool,
) -> Result<RealCosts, DemoError> {
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
    let begun = used();
    // With a prober, as a demonstration has one: what it takes goes with the operations of the load.
    let gaps = ProbeGaps::default();
    let steady = run_workload(&world, Some(&gaps), |tick, _| {
        let is_over = tick.elapsed_ns >= STEADY.as_nanos() as u64;
        if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    let [node_ns, client_ns] = between(begun, used())?;

    let used = || {
        let of = |pid| threads_cpu_seconds(pid, MOVERS);
        Some([of(nodes.source.pid())?, of(nodes.target.pid())?])
    };
    let begun = used();
    let control = Control::connect(&nodes.source.address(), None)?;
    let mut course = Course::new(&world, options, &nodes, control, &gaps, terminal);
    run_workload(&world, Some(&gaps), |tick, timeline| course.tick(tick, timeline))?;
    let moved = course.finish()?;
    let [pack_ns, replay_ns] = between(begun, used())?;

    if world.is_stopping() {
        return Err(DemoError::Interrupted);
    }
    let operations = (steady.totals.reads + steady.totals.writes) as f64;
    let moved_kib = moved.bytes as f64 / 1024.0;
    if operations == 0.0 || moved_kib == 0.0 {
        return Err(DemoError::Node("the node served or moved nothing".to_owned()));
    }
    Ok(RealCosts {
        node_ns: node_ns / operations,
        client_ns: client_ns / operations,
        pack_ns_per_kib: pack_ns / moved_kib,
        replay_ns_per_kib: replay_ns / moved_kib,
        node_share: quotas.map(|_| share),
    })
}

/// Measures some times, and gives the median of each cost.
///
/// # Errors
/// The first measurement's that fails.
///
/// # Panics
/// When it is to be measured no times.
pub fn medians(
    times: usize,
    mut measure: impl FnMut() -> Result<RealCosts, DemoError>,
) -> Result<RealCosts, DemoError> {
    let all: Vec<RealCosts> = (0..times).map(|_| measure()).collect::<Result<_, _>>()?;
    let median = |of: fn(&RealCosts) -> f64| {
        let mut values: Vec<f64> = all.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    Ok(RealCosts {
        node_ns: median(|costs| costs.node_ns),
        client_ns: median(|costs| costs.client_ns),
        pack_ns_per_kib: median(|costs| costs.pack_ns_per_kib),
        replay_ns_per_kib: median(|costs| costs.replay_ns_per_kib),
        node_share: all[0].node_share,
    })
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

    #[test]
    fn a_disturbed_measurement_does_not_count() {
        let costs = |ns: f64| RealCosts {
            node_ns: ns,
            client_ns: 2.0 * ns,
            pack_ns_per_kib: -ns,
            replay_ns_per_kib: 7.0,
            node_share: Some(0.4),
        };
        let mut seen = [10.0, 90.0, 11.0].into_iter();
        let medians = medians(3, || Ok(costs(seen.next().expect("three are asked for"))));
        assert_eq!(medians.expect("all can be measured"), costs(11.0));
        let interrupted = super::medians(3, || Err(DemoError::Interrupted));
        assert!(matches!(interrupted, Err(DemoError::Interrupted)));
    }
}
