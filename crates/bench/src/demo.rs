//! `sidle demo`: two nodes, a load, half of the positions moved under it, and the clients' measurements.

mod cluster;
mod course;
mod limits;

pub use cluster::NodePair;
pub(crate) use cluster::node_arguments;

use crate::control::{Control, PATIENCE_UNDER_LOAD};
use crate::cpu_lists::CpuLists;
use crate::figures::explain_absent;
use crate::limits::LoadSize;
use crate::load::{
    ClientKind, Measured, Pacing, Plan, ProbeGaps, Totals, World, load_records, read_back, run_workload,
};
use crate::outcome::{Setting, note_read_back, report};
use crate::policy::PolicyWord;
use crate::quota::CpuShares;
use crate::report::{CpuSeconds, Report};
use crate::steady::not_loaded;
use crate::terminal::Terminal;
pub(crate) use course::request_move;
pub use course::{Course, Moved, NodeCounters};
pub(crate) use limits::Limits;
use sidle_types::{PositionRange, Slot};
use sidle_workload::{Distribution, KeyFormat, ValueFormat, Workload};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Why a demonstration ended early.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// It was interrupted; everything it started is gone.
    #[error("interrupted")]
    Interrupted,
    /// The options do not fit together.
    #[error("{0}")]
    Options(String),
    /// A node could not be started, or went away.
    #[error("{0}")]
    Node(String),
    /// A node did not answer as it should.
    #[error(transparent)]
    Control(#[from] crate::control::ControlError),
    /// The migration failed.
    #[error("the migration did not end well: {0}")]
    Migration(String),
    /// The system refused something.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// What to demonstrate.
#[derive(Clone, Debug)]
pub struct DemoOptions {
    /// The program whose `server` is a node.
    pub program: PathBuf,
    /// How to move.
    pub protocol: String,
    /// The bound on the move's load on the nodes.
    pub policy: PolicyWord,
    /// The mix of reads and writes.
    pub workload: Workload,
    /// How popular the records are.
    pub distribution: Distribution,
    /// How many records.
    pub records: u64,
    /// Bytes of each key.
    pub key_bytes: usize,
    /// Bytes of each value.
    pub value_bytes: usize,
    /// How long the load lasts before the move, and again after it.
    pub margin: Duration,
    /// When operations are sent.
    pub pacing: Pacing,
    /// Which client carries the load.
    pub client: ClientKind,
    /// Clients.
    pub clients: u32,
    /// The most operations that each has under way.
    pub outstanding: u32,
    /// Whether each learns by itself what has moved, instead of all of a thread together.
    pub separate_clients: bool,
    /// Whether they use their knowledge of moved keys; otherwise every read of a moving key asks both nodes.
    pub tracking: bool,
    /// Whether the nodes have threads of their own for moving data; otherwise the serving threads do it.
    pub offloading: bool,
    /// Threads that drive them.
    pub threads: u32,
    /// Serving threads of each node.
    pub workers: u32,
    /// Processor quotas.
    pub cpus: Option<CpuShares>,
    /// The processors that each node is restricted to.
    pub cpu_lists: Option<CpuLists>,
    /// The seed of every draw.
    pub seed: u64,
}

/// The half of the positions that moves.
fn moving_half() -> PositionRange {
    let slot = |number| Slot::new(number).expect("half of the slots exist");
    PositionRange::of_slots(slot(0), slot(8191)).expect("0 comes before 8191")
}

impl DemoOptions {
    /// The load's size.
    pub fn size(&self) -> LoadSize {
        LoadSize {
            records: self.records,
            key_bytes: self.key_bytes,
            value_bytes: self.value_bytes,
            underway: u64::from(self.clients) * u64::from(self.outstanding),
        }
    }
}

/// Runs the demonstration and returns its report. Its size has been checked ([`LoadSize::check_with_nodes`]).
pub fn run(options: &DemoOptions, terminal: &Terminal, stop: &AtomicBool) -> Result<Report, DemoError> {
    let mut limits = Limits::new(options);
    let nodes = NodePair::start(options)?;
    terminal.say(&format!(
        "two nodes: {} (source) and {} (target)",
        nodes.source.address(),
        nodes.target.address()
    ));
    let world = loaded_world(options, &nodes, terminal, stop)?;

    let cpu_limits = limits.apply(options, &nodes, terminal)?;
    let gaps = ProbeGaps::default();
    let control = Control::connect(&nodes.source.address(), None)?.with_patience(PATIENCE_UNDER_LOAD)?;
    let mut course = Course::new(&world, options, &nodes, control, &gaps, terminal);
    let measured = run_workload(&world, Some(&gaps), |tick, timeline| course.tick(tick, timeline))?;
    let moved = course.finish()?;
    if world.is_stopping() {
        return Err(DemoError::Interrupted);
    }
    drop(limits);

    let back = read_back(&world, terminal.progress("reading back", options.records))?;
    if world.is_stopping() {
        return Err(DemoError::Interrupted);
    }
    Ok(finished(options, &world, &measured, &moved, &back, cpu_limits))
}

/// The load's world, with every record written.
pub fn loaded_world<'a>(
    options: &DemoOptions,
    nodes: &NodePair,
    terminal: &Terminal,
    stop: &'a AtomicBool,
) -> Result<World<'a>, DemoError> {
    let world = World::new(plan_of(options, &[nodes.source.address()])?, stop, None);
    let loaded = load_records(&world, terminal.progress("loading", options.records))?;
    check_loaded(&world, &loaded)?;
    Ok(world)
}

/// The load on nodes with these addresses.
pub(crate) fn plan_of(options: &DemoOptions, nodes: &[String]) -> Result<Plan, DemoError> {
    let refused = |error: &dyn std::fmt::Display| DemoError::Options(error.to_string());
    Ok(Plan {
        seeds: nodes
            .iter()
            .map(|node| node.parse().map_err(|error| refused(&error)))
            .collect::<Result<_, _>>()?,
        password: None,
        client: options.client,
        records: options.records,
        keys: KeyFormat::new(options.key_bytes, options.records).map_err(|error| refused(&error))?,
        values: ValueFormat::new(options.value_bytes).map_err(|error| refused(&error))?,
        workload: options.workload.clone(),
        distribution: options.distribution,
        clients: options.clients.max(1),
        outstanding: options.outstanding.max(1),
        separate_clients: options.separate_clients,
        tracking: options.tracking,
        threads: options.threads.max(1),
        pacing: options.pacing,
        seed: options.seed,
        moving: Some(moving_half()),
    })
}

/// Fails unless every record was written.
pub(crate) fn check_loaded(world: &World<'_>, loaded: &Totals) -> Result<(), DemoError> {
    if world.is_stopping() {
        return Err(DemoError::Interrupted);
    }
    if loaded.writes == world.plan.records {
        return Ok(());
    }
    Err(DemoError::Node(not_loaded(loaded, world.plan.records)))
}

fn finished(
    options: &DemoOptions,
    world: &World<'_>,
    measured: &Measured,
    moved: &Moved,
    back: &Totals,
    cpu_limits: Option<std::collections::BTreeMap<String, f64>>,
) -> Report {
    let cpu_lists = options.cpu_lists.clone().map(|lists| lists.0);
    let setting = Setting { cpu_limits, cpu_lists, migration: Some(moved.interval) };
    let mut report = report(&world.plan, measured, setting);
    report.protocol = Some(options.protocol.clone());
    report.policy = Some(options.policy);
    report.movers_on_workers = !options.offloading;
    report.records_moved = Some(moved.records);
    report.bytes_moved = Some(moved.bytes);
    report.seconds = Some(moved.seconds);
    report.mb_per_s = Some(moved.bytes as f64 / 1e6 / moved.seconds);
    report.longest_gap_ms = moved.gaps;
    report.write_pause_ms = moved.write_pause_ms;
    note_read_back(&mut report, back);
    report.cpu_seconds =
        CpuSeconds { source: moved.cpu.source, target: moved.cpu.target, clients: moved.cpu.clients };
    report.priority_pulls = moved.counters.priority_pulls;
    report.samp_pulls = moved.counters.samp_pulls;
    report.cuts = moved.counters.cuts;
    report.extra_bytes.server_side = moved.counters.extra_bytes;
    if world.plan.workload.is_read_only() {
        report.say_unmeasured("write_pause_ms", "the workload does not write");
    }
    explain_absent(&mut report);
    report
}
