//! The load to make, and the state that all of its threads share.

use crate::gap::GapMeter;
use crate::load::recording::HistoryFile;
use crate::timeline::Part;
use sidle_cluster::HostPort;
use sidle_types::{Position, PositionRange};
use sidle_workload::{Distribution, KeyFormat, Ledger, ValueFormat, Workload};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// When the next operation is sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pacing {
    /// After an answer: as many operations under way as allowed, which measures peak throughput.
    Closed,
    /// The same, but only after all answers of a connection: requests arrive in whole batches. For
    /// separate clients only.
    Batches,
    /// At this rate in operations per second, regardless of answers: this measures latency. An operation that
    /// cannot be sent in time is late, and its latency counts from when it was due.
    Open(f64),
}

/// Which client carries the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientKind {
    /// Sidle's own: follows migrations and reads from both ends.
    Sidle,
    /// As an unmodified cluster client: MOVED and ASK.
    Plain,
}

impl ClientKind {
    /// The name in options and reports.
    pub const fn name(self) -> &'static str {
        match self {
            ClientKind::Sidle => "sidle",
            ClientKind::Plain => "plain",
        }
    }
}

/// The load to make.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Nodes to ask first; if data moves, the source is the first of them.
    pub seeds: Vec<HostPort>,
    /// The cluster's password.
    pub password: Option<String>,
    /// Which client carries it.
    pub client: ClientKind,
    /// How many records there are.
    pub records: u64,
    /// How they are named.
    pub keys: KeyFormat,
    /// How their values are written.
    pub values: ValueFormat,
    /// The mix of reads and writes.
    pub workload: Workload,
    /// How popular the records are.
    pub distribution: Distribution,
    /// Clients: each has a connection to each node, or its share in its thread's.
    pub clients: u32,
    /// The most operations that a client has under way.
    pub outstanding: u32,
    /// Whether each client has connections of its own and learns by itself what has moved. Otherwise the
    /// clients of a thread belong to one application: they share connections, one for each, and all knowledge
    /// gained on them.
    pub separate_clients: bool,
    /// Whether clients use their knowledge of moved keys; otherwise every read of a moving key asks both
    /// nodes.
    pub tracking: bool,
    /// Threads that drive the clients.
    pub threads: u32,
    /// When the next operation is sent.
    pub pacing: Pacing,
    /// The seed of every draw.
    pub seed: u64,
    /// The moving range, if known beforehand: pauses of its writes are measured.
    pub moving: Option<PositionRange>,
}

/// The state shared by a load's threads.
#[derive(Debug)]
pub struct World<'a> {
    /// The load.
    pub plan: Plan,
    /// Which writes were sent and acknowledged.
    pub ledger: Ledger,
    /// Stops all threads.
    pub stop: &'a AtomicBool,
    /// Where operations are recorded, if they are.
    pub history: Option<HistoryFile>,
    /// Acknowledged writes of moving keys.
    pub moving_writes: GapMeter,
    /// Operations that have ended so far.
    pub ended: AtomicU64,
    /// The part of the run for operations that end now.
    part: AtomicU8,
    started: Instant,
}

impl<'a> World<'a> {
    /// A world in which nothing was written yet.
    pub fn new(plan: Plan, stop: &'a AtomicBool, history: Option<HistoryFile>) -> World<'a> {
        // Values of an earlier run with the same seed must not pass for this run's.
        let since_1970 = std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_nanos() as u64);
        let run = (since_1970 ^ since_1970 >> 24 ^ u64::from(std::process::id()) << 12) as u32 & 0xff_ffff;
        World {
            ledger: Ledger::new(plan.records, run),
            plan,
            stop,
            history,
            moving_writes: GapMeter::default(),
            ended: AtomicU64::new(0),
            part: AtomicU8::new(Part::Before as u8),
            started: Instant::now(),
        }
    }

    /// Nanoseconds on the world's own monotonic clock.
    #[inline]
    pub fn now_ns(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }

    /// Starts this part of the run for operations that end from now on. Returns the world's clock then.
    pub fn enter(&self, part: Part) -> u64 {
        self.part.store(part as u8, Ordering::Relaxed);
        self.now_ns()
    }

    /// The part of the run for operations that end now.
    #[inline]
    pub fn part(&self) -> Part {
        match self.part.load(Ordering::Relaxed) {
            0 => Part::Before,
            1 => Part::During,
            _ => Part::After,
        }
    }

    /// Whether all threads were stopped.
    #[inline]
    pub fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Whether the record's key is among those that move.
    pub fn is_moving(&self, record: u64) -> bool {
        let key = || Position::of_key(&self.plan.keys.key(record));
        self.plan.moving.is_some_and(|range| range.contains(key()))
    }

    /// Up to `count` records with moving keys, spread over all records.
    pub fn moving_records(&self, count: usize) -> Vec<u64> {
        let step = (self.plan.records / (count as u64 * 16)).max(1) as usize;
        (0..self.plan.records).step_by(step).filter(|&record| self.is_moving(record)).take(count).collect()
    }

    /// How long operations may take to end after a load has stopped sending.
    pub const fn drain_limit() -> Duration {
        Duration::from_secs(3)
    }
}
