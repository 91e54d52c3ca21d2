//! A run's report: the JSON file, from which the page is drawn too.
//!
//! Every figure that could not be measured is `null`, and [`Report::unmeasured`] holds the reason. A move's
//! figures are `null` where nothing moved (`migration` is `null`). Latencies are in
//! microseconds, throughput in operations per second.

use crate::policy::PolicyWord;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The length of a window of the timeline.
pub const WINDOW_MS: u64 = 100;

/// One run: a load, and usually a migration under it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// How the data moved; `null` if nothing did.
    pub protocol: Option<String>,
    /// The bound on the move's load on the nodes: `adaptive`, `rate=50` (MB/s), `deadline=2.5` (s),
    /// `slo-p99=800` (us); `null` if nothing moved, and in reports from before this field.
    #[serde(default)]
    pub policy: Option<PolicyWord>,
    /// Whether the nodes moved data on the serving threads, instead of threads of their own.
    #[serde(default)]
    pub movers_on_workers: bool,
    /// The operation mix: `ycsb-b`, `30% writes`.
    pub workload: String,
    /// Records loaded before the run.
    pub records: u64,
    /// Bytes of each value.
    pub value_bytes: u64,
    /// The seed of every draw.
    pub seed: u64,
    /// The run's surroundings.
    pub machine: Machine,
    /// How the load was made.
    pub load: Load,
    /// The modelled parts; `null`: everything was measured.
    #[serde(default)]
    pub modelled: Option<Modelled>,

    /// Records that moved.
    pub records_moved: Option<u64>,
    /// Bytes of those, keys, values and headers.
    pub bytes_moved: Option<u64>,
    /// How long the move took, from the request to its end.
    pub seconds: Option<f64>,
    /// Bytes moved per second, in millions.
    pub mb_per_s: Option<f64>,
    /// When in the timeline the move took place. Where a node was killed, from then until everything that it
    /// had was recovered.
    pub migration: Option<Interval>,
    /// The node that was killed under the load; `null` if none was, and in reports from before this field.
    #[serde(default)]
    pub kill: Option<KillFigures>,

    /// Operations per second.
    pub throughput: Throughput,
    /// How long operations took.
    pub latency_us: Latency,
    /// Mean latencies by the node whose answer was taken, in the same parts; `null` if nothing moved.
    #[serde(default)]
    pub mean_latency_by_node_us: Option<NodeLatency>,
    /// Longest times without a success on moving keys.
    pub longest_gap_ms: Gap,
    /// The longest time without an acknowledged write on a moving key, over the whole load.
    pub write_pause_ms: Option<f64>,

    /// Operations that ended in an error, by kind.
    pub errors: BTreeMap<String, u64>,
    /// Reads that returned a wrong, torn or stale value, or none where there was one.
    pub wrong_values: u64,
    /// Records whose last acknowledged write was missing afterwards.
    pub lost_writes: Option<u64>,

    /// Bytes beyond one request and reply per operation and one copy of each record.
    pub extra_bytes: ExtraBytes,
    /// Reads that asked both nodes.
    pub double_reads: Option<u64>,
    /// Reads in the moving range that asked the target only.
    pub single_target_reads: Option<u64>,
    /// Reads in the moving range that asked the source only.
    pub single_source_reads: Option<u64>,
    /// Records fetched because an operation waited for them.
    pub priority_pulls: Option<u64>,
    /// Batches of sampled records fetched ahead.
    pub samp_pulls: Option<u64>,
    /// Milliseconds from the request to move until the target answered half of what it answered after the
    /// move; `null` too in reports from before this field.
    #[serde(default)]
    pub relief_ms: Option<f64>,
    /// The cuts by which the range was given; `null` if it was given at once, and in reports from before this
    /// field.
    #[serde(default)]
    pub cuts: Option<CutFigures>,

    /// How often transactions were tried again, in a load of those.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tried_again: Option<TriedAgain>,

    /// The clients' cost of tracking.
    pub client: ClientCosts,
    /// Processor time by its user.
    pub cpu_seconds: CpuSeconds,
    /// Figures that are `null`, with the reason.
    pub unmeasured: BTreeMap<String, String>,
    /// The run in windows of 100 ms.
    pub timeline: Vec<TimelinePoint>,
}

/// A node that was killed under the load, as `kill -9` does.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KillFigures {
    /// Which one: `node`; `source` or `target` of a running migration.
    pub victim: String,
    /// When, in milliseconds from the start of the load.
    pub at_ms: f64,
    /// Milliseconds from then until other nodes owned what it had.
    pub taken_over_ms: f64,
    /// Milliseconds from then until everything was read from copies of its log, and a migration that it had
    /// part in was over.
    pub recovered_ms: f64,
    /// Bytes of the records that were recovered.
    pub recovered_bytes: u64,
    /// How the migration ended that it had part in: `done`, `cancelled`, `failed`; `null` without one.
    pub migration_end: Option<String>,
}

/// A run's surroundings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Processors.
    pub cores: u32,
    /// Shares of a processor per process, if there were quotas; `null`: all shared the machine.
    pub cpu_limits: Option<BTreeMap<String, f64>>,
    /// The processors of a restricted process, by number; `null`: all ran on all of
    /// them, also in reports from before this field.
    #[serde(default)]
    pub cpu_lists: Option<BTreeMap<String, String>>,
    /// The time that its host took during the load; `null` in modelled runs, and in reports from before
    /// this field.
    #[serde(default)]
    pub disturbance: Option<Disturbance>,
}

/// A longer stand-still of the machine is reported: half a window of the timeline.
pub const STILL_LIMIT_MS: f64 = 50.0;
/// The same if its host took more than this share of its processors.
pub const STOLEN_LIMIT: f64 = 0.1;

/// The time that a machine lost, because its host ran other programs, or it slept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Disturbance {
    /// The share of all processor time that the host took ("steal").
    pub stolen: Option<f64>,
    /// The longest time, in milliseconds, that a thread of the highest priority was kept waiting; 0 if it
    /// never was for more than 5 ms.
    pub longest_still_ms: Option<f64>,
    /// All such times together.
    pub still_ms: Option<f64>,
}

impl Disturbance {
    /// Whether it was so much that the run describes the host more than the nodes.
    pub fn is_much(&self) -> bool {
        self.longest_still_ms.is_some_and(|ms| ms > STILL_LIMIT_MS)
            || self.stolen.is_some_and(|share| share > STOLEN_LIMIT)
    }
}

/// A run on modelled machines: time is the model's, all events in it come from the real code.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Modelled {
    /// The machines and their network.
    pub machines: serde_json::Value,
    /// The processor cost of each piece of work.
    pub costs: serde_json::Value,
    /// How many of the records there were; each stands for as many in bulk transfers.
    pub stored_records: u64,
}

/// How the load was made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// `closed` (at the pace of the answers: peak throughput) or `open` (at a fixed rate: latency).
    #[serde(rename = "loop")]
    pub kind: String,
    /// Operations per second requested, in an open loop.
    pub rate: Option<f64>,
    /// `sidle` or `plain`.
    pub client: String,
    /// Clients: each has a connection to each node, or its share in its thread's.
    pub clients: u32,
    /// Whether each client has connections of its own and learns by itself what has moved, as all did in
    /// reports without this field. Otherwise the clients of a thread share connections, one for each, and all
    /// knowledge gained on them.
    #[serde(default = "yes")]
    pub separate_clients: bool,
    /// Whether the clients ask only the target for keys known to have moved; otherwise every read of a
    /// moving key asks both nodes.
    #[serde(default = "yes")]
    pub tracking: bool,
    /// The most operations that each client has under way.
    pub outstanding: u32,
    /// Threads that drive the clients.
    pub threads: u32,
    /// Bytes of each key.
    pub key_bytes: u64,
    /// How popular the records are: `zipf:0.99`.
    pub distribution: String,
}

fn yes() -> bool {
    true
}

/// A part of the timeline, in milliseconds from its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interval {
    /// Where it starts.
    pub from_ms: f64,
    /// Where it ends.
    pub to_ms: f64,
}

/// Operations per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Throughput {
    /// The median window before the move.
    pub before: Option<f64>,
    /// The mean while data moved.
    pub during: Option<f64>,
    /// The worst window while data moved.
    pub during_worst_window: Option<f64>,
    /// The median window after the move.
    pub after: Option<f64>,
}

/// Latencies of the three parts of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latency {
    /// Before the move; the whole run if nothing moved.
    pub before: ByKind,
    /// While data moved.
    pub during: ByKind,
    /// After the move.
    pub after: ByKind,
}

/// Latencies by kind of operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ByKind {
    /// Reads; `null` if there were none.
    pub reads: Option<Percentiles>,
    /// Writes; `null` if there were none.
    pub writes: Option<Percentiles>,
    /// Transactions, with all their attempts, in a load of those.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transactions: Option<Percentiles>,
}

/// Percentiles in microseconds, to within 1 %.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Percentiles {
    /// The median.
    pub p50: f64,
    /// 99 of 100 took at most this.
    pub p99: f64,
    /// 999 of 1000 took at most this.
    pub p999: f64,
    /// The longest.
    pub max: f64,
}

/// Mean latencies of the three parts of a run, by the node whose answer was taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeLatency {
    /// Before the move.
    pub before: NodeLatencies,
    /// While data moved.
    pub during: NodeLatencies,
    /// After the move.
    pub after: NodeLatencies,
}

/// Mean latencies by the node whose answer was taken. A read that asked both nodes counts at its value's
/// origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeLatencies {
    /// The node that gave the records up.
    pub source: MeanByKind,
    /// The node that took them.
    pub target: MeanByKind,
}

/// Mean latencies by kind of operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeanByKind {
    /// Reads; `null` if there were none.
    pub reads: Option<MeanLatency>,
    /// Writes; `null` if there were none.
    pub writes: Option<MeanLatency>,
}

/// A mean latency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeanLatency {
    /// The number of operations in the mean.
    pub operations: u64,
    /// In microseconds, to within 1 %.
    pub mean: f64,
}

/// Longest times without a success, measured by a prober on its own connections; milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gap {
    /// Between two successful reads.
    pub reads: Option<f64>,
    /// Between two successful writes.
    pub writes: Option<f64>,
    /// Between two transactions that were committed, in a load of those.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transactions: Option<f64>,
}

/// How often transactions were tried again, because another one or the move was in their way, by those that
/// were committed; `null` where none was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TriedAgain {
    /// Before the move.
    pub before: Option<f64>,
    /// While data moved.
    pub during: Option<f64>,
    /// After it.
    pub after: Option<f64>,
}

/// Bytes beyond the necessary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExtraBytes {
    /// Between clients and nodes: second requests and replies, redirections, progress reports.
    pub client_side: Option<u64>,
    /// Between nodes: records sent more than once, requests and headers.
    pub server_side: Option<u64>,
}

/// Cuts: transfers of ownership of parts of the range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CutFigures {
    /// How many there were.
    pub number: u64,
    /// Milliseconds from the target's request to its ownership: as long at most nobody served what a cut
    /// gave. The median, to an eighth.
    pub p50_ms: f64,
    /// 999 of 1000 took at most this.
    pub p999_ms: f64,
    /// Bytes that the target pushed to clients to tell them what cuts gave; 0 too in reports from before this
    /// field.
    #[serde(default)]
    pub digest_bytes: u64,
}

impl CutFigures {
    /// The figures of so many cuts.
    pub fn of(number: u64, p50_us: u64, p999_us: u64, digest_bytes: u64) -> CutFigures {
        let ms = |us: u64| us as f64 / 1000.0;
        CutFigures { number, p50_ms: ms(p50_us), p999_ms: ms(p999_us), digest_bytes }
    }
}

/// The clients' cost of tracking a migration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientCosts {
    /// Nanoseconds of processor time to decide which nodes to ask for a key.
    pub mcr_sph_lookup_ns: Option<f64>,
    /// The most bytes that one client held to know what has moved.
    pub sph_bytes_max: Option<u64>,
}

/// Processor time, user and system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CpuSeconds {
    /// The node that gave the records up.
    pub source: Option<f64>,
    /// The node that took them.
    pub target: Option<f64>,
    /// The load's process.
    pub clients: Option<f64>,
}

/// A window of 100 ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimelinePoint {
    /// The window's start, in milliseconds from the start of the load.
    pub at_ms: u64,
    /// Operations that ended in it.
    pub operations: u64,
    /// The median latency in microseconds; `null` if no operation ended.
    pub p50: Option<f64>,
    /// 99 of 100 took at most this.
    pub p99: Option<f64>,
    /// 999 of 1000 took at most this.
    pub p999: Option<f64>,
    /// Bytes of records that arrived at the target in it.
    pub moved_bytes: Option<u64>,
    /// Bytes beyond the necessary in it, between clients and nodes.
    pub extra_bytes: Option<u64>,
    /// Bytes beyond the necessary in it, between the nodes.
    #[serde(default)]
    pub extra_server_bytes: Option<u64>,
    /// The most bytes that one client held in it to know what has moved: MCR and SPH.
    #[serde(default)]
    pub tracking_bytes: Option<u64>,
    /// Nanoseconds of processor time to decide which nodes to ask for a key; `null` if it was not timed in
    /// it.
    #[serde(default)]
    pub lookup_ns: Option<f64>,
    /// How often a transaction was tried again in it, in a load of those.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tried_again: Option<u64>,
}

impl Report {
    /// Whether the machine's host disturbed the run so much that its figures mean little.
    pub fn is_disturbed(&self) -> bool {
        self.machine.disturbance.is_some_and(|disturbance| disturbance.is_much())
    }

    /// Records why a figure is `null`.
    pub fn say_unmeasured(&mut self, figure: &str, reason: &str) {
        self.unmeasured.insert(figure.to_owned(), reason.to_owned());
    }

    /// Whether every acknowledged write was there, and no read was wrong.
    pub fn is_correct(&self) -> bool {
        self.wrong_values == 0 && self.lost_writes.unwrap_or(0) == 0
    }
}
