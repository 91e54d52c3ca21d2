//! What all workers of a node share: configuration, clients, counters, and facts about the process.

use crate::access::Access;
use crate::clients::Clients;
use crate::cluster_view::Unreachable;
use crate::config::Config;
use crate::current_table::CurrentTable;
use crate::detours::Detours;
use crate::durability::Durability;
use crate::forward::{Holds, Suspects};
use crate::loading::Loading;
use crate::locks::Claims;
use crate::monitors::Monitors;
use crate::observe::{Distribution, SlowLog, Spikes};
use crate::pause::Pause;
use crate::peers::Peers;
use crate::saving::Saves;
use crate::stats::WorkerStats;
use crate::taking_over::TakingOver;
use crate::waiters::Waiters;
use crate::worker_wakes::WorkerWakes;
use sidle_access::Catalogue;
use sidle_commands::CommandId;
use sidle_heat::Heat;
use sidle_migration::{CUT_TIME_BUCKETS, CutTimes, ImporterCounters};
use sidle_store::Store;
use sidle_types::{NodeId, WallMs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// The Redis version whose replies are the reference, and that clients are shown.
pub const REDIS_VERSION: &str = "7.0.15";

/// What a node's workers, movers and control thread have in common.
#[derive(Clone)]
pub struct NodeParts {
    /// The data.
    pub store: Arc<Store>,
    /// Configuration, clients, counters.
    pub shared: Arc<NodeShared>,
    /// The range table.
    pub published: Arc<CurrentTable>,
}

/// Shared by all workers of a node.
pub struct NodeShared {
    /// CONFIG GET and SET.
    pub config: Config,
    /// Who may do what.
    pub access: Access,
    /// The connected clients.
    pub clients: Arc<Clients>,
    /// Each worker's counters.
    pub workers: Vec<Arc<WorkerStats>>,
    /// Which keys and slots are hot.
    pub heat: Heat,
    /// Constant while the process runs.
    pub process: ProcessFacts,
    /// The control thread's regular measurements.
    pub gauges: Gauges,
    pub(crate) slow_log: SlowLog,
    /// Keys of commands that this node carries out together with others.
    pub(crate) holds: Arc<Holds>,
    /// Parts of transactions that wait for younger ones.
    pub(crate) claims: Arc<Claims>,
    /// Transactions that this node decides in place of coordinators that are gone.
    pub(crate) helped: AtomicU64,
    /// Commands that wait for what they are to take.
    pub(crate) waiters: Arc<Waiters>,
    /// The nodes that they do not wait for.
    pub(crate) suspects: Suspects,
    pub(crate) spikes: Spikes,
    /// The unreachable members.
    pub unreachable: Unreachable,
    /// The links to other nodes.
    pub peers: Arc<Peers>,
    /// Whether expired keys that nobody reads are removed (DEBUG SET-ACTIVE-EXPIRE).
    pub(crate) expires_actively: AtomicBool,
    /// The durable log.
    pub durability: Durability,
    /// How far it is read at the start.
    pub loading: Loading,
    /// How far logs of dead nodes are read.
    pub taking_over: TakingOver,
    /// Saves of its keys as a file.
    pub saves: Saves,
    /// Whether commands take the long way.
    pub(crate) detours: Arc<Detours>,
    /// The workers that others have left something to do.
    pub(crate) wakes: Arc<WorkerWakes>,
    /// The connections that are shown every command.
    pub(crate) monitors: Arc<Monitors>,
    /// Until when its clients wait.
    pub(crate) pause: Pause,
}

impl NodeShared {
    /// The shared part of a node with so many workers, which count that many commands.
    pub(crate) fn with_commands(
        commands: usize,
        catalogue: Catalogue,
        config: Config,
        workers: usize,
        process: ProcessFacts,
    ) -> NodeShared {
        let (detours, wakes) = (Arc::default(), Arc::default());
        NodeShared {
            access: Access::new(catalogue, config.password().as_deref()),
            config,
            clients: Arc::default(),
            workers: (0..workers).map(|_| Arc::new(WorkerStats::new(commands))).collect(),
            heat: Heat::new(workers),
            process,
            gauges: Gauges::default(),
            slow_log: SlowLog::default(),
            holds: Arc::default(),
            claims: Arc::default(),
            helped: AtomicU64::new(0),
            waiters: Arc::new(Waiters::new(workers, &wakes)),
            suspects: Suspects::default(),
            spikes: Spikes::default(),
            unreachable: Unreachable::default(),
            peers: Arc::default(),
            expires_actively: AtomicBool::new(true),
            durability: Durability::default(),
            loading: Loading::of(&detours),
            taking_over: TakingOver::default(),
            saves: Saves::default(),
            pause: Pause::new(workers, &detours, &wakes),
            monitors: Arc::new(Monitors::new(workers, &detours, &wakes)),
            detours,
            wakes,
        }
    }

    /// The durations of a command's calls; `None` when none was measured.
    pub(crate) fn distribution(&self, id: CommandId) -> Option<Distribution> {
        Distribution::of(self.workers.iter().map(|worker| &worker.command(id).latencies))
    }

    /// A counter's sum over all workers.
    pub fn sum(&self, read: impl Fn(&WorkerStats) -> u64) -> u64 {
        self.workers.iter().map(|worker| read(worker)).sum()
    }
}

/// Facts about the process that INFO and CLUSTER show.
#[derive(Clone, Debug)]
pub struct ProcessFacts {
    /// This node's name in the cluster.
    pub node: NodeId,
    /// This process's random id.
    pub run_id: NodeId,
    /// When the process started.
    pub started_at: WallMs,
    /// Process number.
    pub process_id: u32,
    /// The port that clients connect to.
    pub port: u16,
    /// The operating system, as `uname -srm` prints it.
    pub system: String,
    /// The executable's path.
    pub executable: String,
    /// The configuration file's path; empty when there is none.
    pub config_file: String,
}

/// Measurements that the control thread refreshes and INFO shows.
#[derive(Debug, Default)]
pub struct Gauges {
    /// Recent commands per second.
    pub operations_per_second: AtomicU64,
    /// Recent bytes received per second.
    pub input_bytes_per_second: AtomicU64,
    /// Recent bytes sent per second.
    pub output_bytes_per_second: AtomicU64,
    /// The most memory for data seen in use.
    pub peak_used_bytes: AtomicU64,
    /// The process's resident memory.
    pub resident_bytes: AtomicU64,
    /// The machine's memory.
    pub system_memory_bytes: AtomicU64,
    /// CPU time in the kernel so far.
    pub cpu_system_us: AtomicU64,
    /// CPU time in the program so far.
    pub cpu_user_us: AtomicU64,
    /// The cost of migrations so far.
    pub migration: MigrationTotals,
}

/// Sums over all migrations since the node started, for INFO. Each has one writer at a time: the control
/// thread, for `bytes_sent` the movers.
#[derive(Debug, Default)]
pub struct MigrationTotals {
    /// Bulk pulls sent as a target.
    pub pulls: AtomicU64,
    /// Sampled pulls sent as a target.
    pub samp_pulls: AtomicU64,
    /// Priority pulls sent as a target.
    pub priority_pulls: AtomicU64,
    /// Pieces of large records that arrived at the target.
    pub pieces: AtomicU64,
    /// Records that arrived at the target and were new.
    pub records_moved: AtomicU64,
    /// Records that arrived where the target had an entry: written there, or pulled twice.
    pub records_present: AtomicU64,
    /// Bytes given to connections with other movers, as source and as target.
    pub bytes_sent: AtomicU64,
    /// Hot positions that cuts gave the target before their turn, and no command had waited for.
    pub hinted: AtomicU64,
    /// Large collections that arrived at the target chunk by chunk.
    pub collections: AtomicU64,
    /// Large collections that were copied to the target before the freeze.
    pub collections_ahead: AtomicU64,
    /// Bytes that arrived of what changed in them since they were copied.
    pub patch_bytes: AtomicU64,
    /// How many cuts took how long at the target, by bucket.
    pub cut_times: CutTimeSums,
}

/// [`CutTimes`] of several migrations.
#[derive(Debug)]
pub struct CutTimeSums([AtomicU64; CUT_TIME_BUCKETS]);

impl Default for CutTimeSums {
    fn default() -> CutTimeSums {
        CutTimeSums(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl CutTimeSums {
    fn add(&self, before: &CutTimes, now: &CutTimes) {
        for ((sum, before), now) in self.0.iter().zip(before.buckets()).zip(now.buckets()) {
            if now > before {
                sum.fetch_add(now - before, Relaxed);
            }
        }
    }

    /// The sums.
    pub fn read(&self) -> CutTimes {
        CutTimes::from(std::array::from_fn(|bucket| self.0[bucket].load(Relaxed)))
    }
}

impl MigrationTotals {
    /// Adds what a target machine counted between two readings.
    pub(crate) fn add(&self, before: &ImporterCounters, now: &ImporterCounters) {
        let sums = [
            (&self.pulls, before.pulls, now.pulls),
            (&self.samp_pulls, before.samp_pulls, now.samp_pulls),
            (&self.priority_pulls, before.priority_pulls, now.priority_pulls),
            (&self.pieces, before.pieces, now.pieces),
            (&self.records_moved, before.records_moved, now.records_moved),
            (&self.records_present, before.records_present, now.records_present),
            (&self.hinted, before.hinted, now.hinted),
            (&self.collections, before.collections, now.collections),
            (&self.collections_ahead, before.collections_ahead, now.collections_ahead),
            (&self.patch_bytes, before.patch_bytes, now.patch_bytes),
        ];
        for (sum, before, now) in sums {
            sum.fetch_add(now.saturating_sub(before), Relaxed);
        }
        self.cut_times.add(&before.cut_times, &now.cut_times);
    }
}

impl Gauges {
    /// Notes the memory for data in use; returns the most seen.
    pub fn note_used(&self, bytes: u64) -> u64 {
        self.peak_used_bytes.fetch_max(bytes, Relaxed).max(bytes)
    }

    /// Reads one of the gauges.
    pub fn read(gauge: &AtomicU64) -> u64 {
        gauge.load(Relaxed)
    }
}
