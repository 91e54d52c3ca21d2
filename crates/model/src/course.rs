//! The course of a modelled run: a load, a move under it, the load again; and its report.

use crate::client::Load;
use crate::costs::Costs;
use crate::machines::{Machine, Machines, MachinesError};
use crate::model::{Clients, Model};
use crate::recorder::Gap;
use crate::sample::Sample;
use crate::stopwatch::Stopwatch;
use sidle_bench::policy::PolicyWord;
use sidle_bench::report::{self, CpuSeconds, CutFigures, Interval, Modelled, Report};
use sidle_bench::timeline::{Part, Timeline, WINDOW_NS};
use sidle_types::{MigrationPolicy, PositionRange, Slot};
use sidle_workload::{Chooser, Distribution, KeyFormat, OperationStream, ValueFormat, Workload};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;

/// How long nodes may take to join.
const JOIN_NS: u64 = 10_000_000_000;
/// How long the load runs before anything counts: clients connect.
const WARM_UP_NS: u64 = 100_000_000;
/// How long operations may take to end after the load.
const DRAIN_NS: u64 = 10_000_000_000;
/// A longer move is abandoned.
const MOVE_NS: u64 = 3_600_000_000_000;

/// What to model.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The machines it runs on.
    pub machines: Machines,
    /// The costs of work on them.
    pub costs: Costs,
    /// The migration protocol.
    pub protocol: String,
    /// The migration policy.
    pub policy: MigrationPolicy,
    /// The number of records.
    pub records: u64,
    /// About how many of them to store.
    pub sample: u64,
    /// Bytes of each key.
    pub key_bytes: usize,
    /// Bytes of each value.
    pub value_bytes: usize,
    /// The mix of reads and writes.
    pub workload: Workload,
    /// How popular the records are.
    pub distribution: Distribution,
    /// Clients, each with one operation under way at most.
    pub clients: u32,
    /// Operations per second of an open loop; a closed loop has none.
    pub rate: Option<f64>,
    /// Whether they track which records have moved.
    pub tracking: bool,
    /// How long the load runs before the move.
    pub before_ns: u64,
    /// How long it runs after it.
    pub after_ns: u64,
    /// The seed of all draws.
    pub seed: u64,
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The machines are invalid.
    #[error(transparent)]
    Machines(#[from] MachinesError),
    /// The options are inconsistent.
    #[error("{0}")]
    Options(String),
    /// The move failed.
    #[error("the migration did not end well: {0}")]
    Migration(String),
    /// The model made no progress, or not the required one.
    #[error("{0}")]
    Stuck(&'static str),
    /// The caller stopped it.
    #[error("interrupted")]
    Interrupted,
}

/// The progress of a run.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// The current part: `before`, `moving`, `after`.
    pub part: &'static str,
    /// Time in the model.
    pub at_ns: u64,
    /// The moved fraction, 0 to 1.
    pub moved: f64,
}

/// The half of the slots that moves.
const MOVING_SLOTS: &str = "0-8191";

/// The half of the positions that moves.
fn moving_half() -> PositionRange {
    let slot = |number| Slot::new(number).expect("half of the slots exist");
    PositionRange::of_slots(slot(0), slot(8191)).expect("0 comes before 8191")
}

/// Runs a plan. `progress` is called now and then, and returns whether to continue.
///
/// # Errors
/// [`ModelError`]: why there is no report.
pub fn run(plan: &Plan, mut progress: impl FnMut(Progress) -> bool) -> Result<Report, ModelError> {
    let mut course = Course::new(plan, Stopwatch::default())?;
    course.go(&mut progress)?;
    Ok(course.report())
}

pub(crate) struct Course<'p> {
    plan: &'p Plan,
    pub(crate) model: Model,
    load: Rc<Load>,
    timeline: Timeline,
    start_ns: u64,
    interval: Interval,
    counted_records: u64,
    record_bytes: f64,
    gaps: report::Gap,
    write_pause_ms: Option<f64>,
    cpu: CpuSeconds,
}

/// Processor time of work in a model, in nanoseconds; see `RealCosts`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    pub(crate) node_ns: f64,
    pub(crate) client_ns: f64,
    /// Per operation, at the workers of both nodes, before and after the move.
    pub(crate) workers_ns: [f64; 2],
    /// The fraction of requests served on cores that others used as well, before and after.
    pub(crate) shared: [f64; 2],
    pub(crate) pack_ns_per_kib: f64,
    pub(crate) replay_ns_per_kib: f64,
    pub(crate) release_ns_per_kib: f64,
    /// Of both nodes' control threads, from the request to move to the reply that the move is over.
    pub(crate) control_ns: f64,
    /// How often these had work meanwhile.
    pub(crate) control_turns: f64,
    /// How many decisions were stored meanwhile.
    pub(crate) commits: f64,
    /// How often movers resumed bulk work, at both ends together, per KiB.
    pub(crate) resumptions_per_kib: f64,
    /// How many slices of records were released, per KiB.
    pub(crate) releases_per_kib: f64,
}

/// The result of a part of the load.
struct Served {
    operations: f64,
    /// Processor time of both nodes' workers.
    workers_ns: f64,
    /// The fraction of requests that they served on cores that others used as well.
    shared: f64,
}

impl<'p> Course<'p> {
    /// Starts nodes that have joined and are full of records.
    pub(crate) fn new(plan: &'p Plan, watch: Stopwatch) -> Result<Course<'p>, ModelError> {
        plan.machines.check()?;
        let refused = |error: &dyn std::fmt::Display| ModelError::Options(error.to_string());
        if plan.records == 0 || plan.clients == 0 {
            return Err(ModelError::Options("there must be records and clients".to_owned()));
        }
        if plan.rate.is_some_and(|rate| !(rate.is_finite() && rate > 0.0)) {
            return Err(ModelError::Options("a rate is above 0".to_owned()));
        }
        sidle_migration::protocol(&plan.protocol).map_err(|error| refused(&error))?;
        let keys = KeyFormat::new(plan.key_bytes, plan.records).map_err(|error| refused(&error))?;
        ValueFormat::new(plan.value_bytes).map_err(|error| refused(&error))?;
        let sample = Sample::new(plan.records, plan.sample, plan.distribution, plan.seed);
        let record_bytes = (plan.key_bytes + plan.value_bytes + 64) as u64;
        let memory_bytes = (2 << 30) + sample.len() * record_bytes * 2;
        let mut model =
            Model::new(&plan.machines, plan.costs, watch, memory_bytes, sample.weight(), plan.seed);
        if !model.run_until(JOIN_NS, Model::is_ready) {
            return Err(ModelError::Stuck("the nodes do not join"));
        }
        let value = vec![b'v'; plan.value_bytes];
        let full = |_| ModelError::Options("the sample does not fit into memory: --sample".to_owned());
        model.nodes[0].load(&sample, &keys, &value).map_err(full)?;
        let write_pause = RefCell::default();
        let load = Rc::new(Load { sample, keys, value, moving: moving_half(), write_pause });
        Ok(Course {
            plan,
            model,
            load,
            timeline: Timeline::default(),
            start_ns: 0,
            interval: Interval::default(),
            counted_records: 0,
            record_bytes: record_bytes as f64,
            gaps: report::Gap::default(),
            write_pause_ms: None,
            cpu: CpuSeconds::default(),
        })
    }

    /// Runs all: before, the move, after.
    pub(crate) fn go(&mut self, progress: &mut dyn FnMut(Progress) -> bool) -> Result<(), ModelError> {
        self.start_load(progress)?;
        let cpu = self.model.cpu_seconds();
        self.pass("before", self.plan.before_ns, progress)?;
        self.follow_move(progress)?;
        self.pass("after", self.plan.after_ns, progress)?;
        let used: Vec<f64> =
            self.model.cpu_seconds().iter().zip(cpu).map(|(now, before)| now - before).collect();
        self.cpu = CpuSeconds { source: Some(used[0]), target: Some(used[1]), clients: Some(used[2]) };
        let end_ns = self.model.now_ns();
        self.model.clients.iter_mut().for_each(|client| client.is_ending = true);
        if !self.model.run_until(DRAIN_NS, |model| model.clients.iter().all(|client| client.is_idle())) {
            return Err(ModelError::Stuck("operations do not end"));
        }
        for client in &mut self.model.clients {
            client.recorder().hand_over(&mut self.timeline);
        }
        self.timeline.truncate(end_ns - self.start_ns);
        Ok(())
    }

    /// Runs the load before the move, then the move, then the load for `after_ns`.
    pub(crate) fn taken(&mut self, after_ns: u64) -> Result<Taken, ModelError> {
        self.start_load(&mut |_| true)?;
        let begun = self.model.cpu_seconds();
        let before = self.served("before", self.plan.before_ns)?;
        let ended = self.model.cpu_seconds();
        let control_begun = self.model.control_work();
        self.follow_move(&mut |_| true)?;
        let control_ended = self.model.control_work();
        let [control_ns, control_turns, commits] =
            std::array::from_fn(|of| (control_ended[of] - control_begun[of]) as f64);
        let moved_bytes = self.model.migration().map_or(0, |migration| migration.counters.bytes_moved);
        let moved_kib = (moved_bytes as f64 / 1024.0).max(1.0);
        let [node_ns, client_ns] =
            [0, 2].map(|machine| (ended[machine] - begun[machine]) * 1e9 / before.operations);
        let per_kib = |seconds: f64| seconds * 1e9 / moved_kib;
        let moved = self.model.mover_seconds();
        let resumptions = self.model.resumptions();
        let after = self.served("after", after_ns)?;
        let released = self.model.mover_seconds();
        Ok(Taken {
            node_ns,
            client_ns,
            workers_ns: [&before, &after].map(|served| served.workers_ns / served.operations),
            shared: [before, after].map(|served| served.shared),
            pack_ns_per_kib: per_kib(moved[0]),
            replay_ns_per_kib: per_kib(moved[1]),
            release_ns_per_kib: per_kib(released[0] - moved[0]),
            control_ns,
            control_turns,
            commits,
            resumptions_per_kib: resumptions as f64 / moved_kib,
            releases_per_kib: self.model.releases() as f64 / moved_kib,
        })
    }

    /// Runs a part of the load this long; returns what it did.
    fn served(&mut self, part: &'static str, ns: u64) -> Result<Served, ModelError> {
        let begun = (self.operations(), self.model.worker_work());
        self.pass(part, ns, &mut |_| true)?;
        let ended = (self.operations(), self.model.worker_work());
        let [workers_ns, requests, shared] = [0, 1, 2].map(|figure| ended.1[figure] - begun.1[figure]);
        let operations = ((ended.0 - begun.0) as f64).max(1.0);
        Ok(Served { operations, workers_ns, shared: shared / requests.max(1.0) })
    }

    /// Completed operations.
    fn operations(&mut self) -> u64 {
        let mut timeline = Timeline::default();
        for client in &mut self.model.clients {
            client.recorder().hand_over(&mut timeline);
        }
        timeline.points(false, false).iter().map(|point| point.operations).sum()
    }

    /// Starts the clients; measurements start once they are connected.
    fn start_load(&mut self, progress: &mut dyn FnMut(Progress) -> bool) -> Result<(), ModelError> {
        self.start_clients();
        self.pass("before", WARM_UP_NS, progress)?;
        self.start_ns = self.model.now_ns();
        self.model.clients.iter_mut().for_each(|client| client.recorder().start(self.start_ns));
        Ok(())
    }

    fn start_clients(&mut self) {
        let plan = self.plan;
        let threads = u32::from(plan.machines.clients.workers).min(plan.clients);
        let chooser = Chooser::new(plan.distribution, plan.records, plan.seed);
        let stream =
            |number: u32| OperationStream::new(&plan.workload, chooser.clone(), plan.seed, u64::from(number));
        self.model.start_clients(Clients {
            load: Rc::clone(&self.load),
            outstanding: plan.clients.div_ceil(threads),
            tracking: plan.tracking,
            streams: (0..threads).map(stream).collect(),
            rate: plan.rate,
            probed: self.load.probed(),
        });
    }

    /// Runs the load for a while.
    fn pass(
        &mut self,
        part: &'static str,
        ns: u64,
        progress: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<(), ModelError> {
        let until_ns = self.model.now_ns() + ns;
        while self.model.now_ns() < until_ns {
            self.tick(part, if part == "after" { 1.0 } else { 0.0 }, progress)?;
        }
        Ok(())
    }

    fn tick(
        &mut self,
        part: &'static str,
        moved: f64,
        progress: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<(), ModelError> {
        if !self.model.run_to_tick() {
            return Err(ModelError::Stuck("nothing happens any more"));
        }
        if !progress(Progress { part, at_ns: self.model.now_ns(), moved }) {
            return Err(ModelError::Interrupted);
        }
        Ok(())
    }

    /// Starts this part of the run: operations that end from now on belong to it. Returns its start.
    fn enter(&mut self, part: Part) -> u64 {
        self.model.clients.iter_mut().for_each(|client| client.recorder().part = part);
        self.model.now_ns()
    }

    fn follow_move(&mut self, progress: &mut dyn FnMut(Progress) -> bool) -> Result<(), ModelError> {
        let from_ns = self.enter(Part::During);
        let policy = match self.plan.policy {
            // The rate of the stored records.
            MigrationPolicy::Rate { bytes_per_s } => {
                let scaled = bytes_per_s as f64 / self.load.sample.weight();
                MigrationPolicy::Rate { bytes_per_s: (scaled as u64).max(1) }
            }
            other => other,
        };
        self.model.start_migration(MOVING_SLOTS, &self.plan.protocol, policy);
        self.load.write_pause.borrow_mut().watch();
        self.model.gaps().into_iter().flatten().for_each(Gap::watch);
        // Over when the operator receives the reply, as in the demonstration.
        let outcome = loop {
            if let Some(outcome) = self.model.outcome() {
                break outcome;
            }
            if self.model.now_ns() - from_ns > MOVE_NS {
                return Err(ModelError::Stuck("the move takes more than an hour"));
            }
            self.count_moved();
            let records = self.model.migration().map_or(0, |migration| migration.counters.records);
            let moved = self.counted_records as f64 / records.max(1) as f64;
            self.tick("moving", moved.min(1.0), progress)?;
        };
        outcome.map_err(ModelError::Migration)?;
        self.count_moved();
        let now_ns = self.enter(Part::After);
        let ms = |gap: Gap| Some(gap.longest_ns(now_ns) as f64 / 1e6);
        if let Some(&mut [reads, writes]) = self.model.gaps() {
            self.gaps = report::Gap { reads: ms(reads), writes: ms(writes), ..report::Gap::default() };
        }
        self.write_pause_ms = ms(*self.load.write_pause.borrow());
        let since_start_ms = |ns: u64| (ns - self.start_ns) as f64 / 1e6;
        self.interval = Interval { from_ms: since_start_ms(from_ns), to_ms: since_start_ms(now_ns) };
        Ok(())
    }

    /// Counts the records that arrived since the last call.
    fn count_moved(&mut self) {
        let records = self.model.nodes[1].parts.shared.gauges.migration.records_moved.load(Relaxed);
        let fresh = records - self.counted_records;
        self.counted_records = records;
        if let Some(counters) = self.model.migration().map(|migration| migration.counters)
            && counters.records > 0
        {
            self.record_bytes = counters.bytes as f64 / counters.records as f64;
        }
        let window = (self.model.now_ns() - self.start_ns) / WINDOW_NS;
        let bytes = fresh as f64 * self.load.sample.weight() * self.record_bytes;
        self.timeline.add_moved_bytes(window, bytes as u64);
    }

    /// The report of everything.
    pub(crate) fn report(mut self) -> Report {
        let (plan, weight) = (self.plan, self.load.sample.weight());
        let (throughput, latency_us) = self.timeline.parts(Some(self.interval));
        let counters = self.model.migration().map(|migration| migration.counters).unwrap_or_default();
        let bytes_moved = counters.bytes_moved as f64 * weight;
        let seconds = (self.interval.to_ms - self.interval.from_ms) / 1000.0;
        let limit = |machine: &Machine| machine.quota.map(|quota| quota.processors);
        let named = [("source", &plan.machines.source), ("target", &plan.machines.target)];
        let limits: std::collections::BTreeMap<String, f64> =
            named.iter().filter_map(|(name, machine)| Some(((*name).to_owned(), limit(machine)?))).collect();
        let all = [&plan.machines.source, &plan.machines.target, &plan.machines.clients];
        let mut report = Report {
            protocol: Some(plan.protocol.clone()),
            policy: Some(PolicyWord(plan.policy)),
            workload: plan.workload.name().to_owned(),
            records: plan.records,
            value_bytes: plan.value_bytes as u64,
            seed: plan.seed,
            machine: sidle_bench::report::Machine {
                disturbance: None,
                cores: all.iter().map(|machine| machine.cores).sum(),
                cpu_limits: (!limits.is_empty()).then_some(limits),
                cpu_lists: None,
            },
            load: sidle_bench::report::Load {
                kind: if plan.rate.is_some() { "open" } else { "closed" }.to_owned(),
                rate: plan.rate,
                client: "sidle".to_owned(),
                clients: plan.clients,
                tracking: plan.tracking,
                outstanding: 1,
                threads: self.model.load_threads() as u32,
                key_bytes: plan.key_bytes as u64,
                distribution: plan.distribution.to_string(),
                ..Default::default()
            },
            records_moved: Some((counters.records_moved as f64 * weight) as u64),
            bytes_moved: Some(bytes_moved as u64),
            seconds: Some(seconds),
            mb_per_s: Some(bytes_moved / 1e6 / seconds),
            migration: Some(self.interval),
            throughput,
            latency_us,
            mean_latency_by_node_us: Some(self.timeline.by_node()),
            relief_ms: self.timeline.relief_ms(self.interval),
            longest_gap_ms: self.gaps,
            write_pause_ms: self.write_pause_ms.filter(|_| !plan.workload.is_read_only()),
            cpu_seconds: self.cpu,
            timeline: self.timeline.points(true, true),
            modelled: Some(Modelled {
                machines: serde_json::json!(plan.machines),
                costs: serde_json::json!(plan.costs),
                stored_records: self.load.sample.len(),
            }),
            ..Report::default()
        };
        self.add_clients(&mut report);
        self.add_nodes(&mut report, bytes_moved);
        report.say_unmeasured(
            "lost_writes",
            "a modelled run checks reads while it lasts; it reads nothing back",
        );
        report.say_unmeasured(
            "client.mcr_sph_lookup_ns",
            "modelled: it is part of what a read costs the client",
        );
        sidle_bench::figures::explain_absent(&mut report);
        report
    }

    fn add_clients(&mut self, report: &mut Report) {
        let (mut double, mut target, mut source, mut extra) = (0, 0, 0, 0);
        for client in &mut self.model.clients {
            let counters = client.counters();
            double += counters.double_reads;
            target += counters.single_target_reads;
            source += counters.single_source_reads;
            let recorder = client.recorder();
            extra += recorder.extra_bytes;
            report.wrong_values += recorder.wrong_values;
            for (kind, number) in &recorder.errors {
                *report.errors.entry(kind.clone()).or_default() += number;
            }
            let most = report.client.sph_bytes_max.unwrap_or(0);
            report.client.sph_bytes_max = Some(most.max(recorder.sph_bytes_max));
        }
        report.double_reads = Some(double);
        report.single_target_reads = Some(target);
        report.single_source_reads = Some(source);
        report.extra_bytes.client_side = Some(extra);
    }

    fn add_nodes(&self, report: &mut Report, arrived_bytes: f64) {
        let totals = &self.model.nodes[1].parts.shared.gauges.migration;
        report.priority_pulls = Some(totals.priority_pulls.load(Relaxed));
        report.samp_pulls = Some(totals.samp_pulls.load(Relaxed));
        let times = totals.cut_times.read();
        let percentiles = times.percentile_us(50.0).zip(times.percentile_us(99.9));
        let digest_bytes = self.model.nodes[1].parts.shared.sum(|worker| worker.digest_bytes.read());
        report.cuts = percentiles.map(|(p50, p999)| CutFigures::of(times.cuts(), p50, p999, digest_bytes));
        let (new, present) = (totals.records_moved.load(Relaxed), totals.records_present.load(Relaxed));
        let needed = arrived_bytes * new as f64 / (new + present).max(1) as f64;
        let movers = self.model.nodes.iter().flat_map(|node| &node.movers);
        let sent: f64 = movers.map(|mover| mover.sent_bytes).sum();
        report.extra_bytes.server_side = Some((sent - needed).max(0.0) as u64);
    }
}
