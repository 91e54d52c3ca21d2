//! One mover: the migrations that one mover thread carries out.
//!
//! Purpose: composition only. A mover owns the source and target machines of its migrations and knows the
//! connection of each of their lanes. It carries frames, worker messages and the control thread's commands
//! in, and frames, wakes and reports out. Crate `migration` decides what a migration does.
//!
//! Call order, for its driver: [`Mover::turn`] whenever the thread was notified or [`Mover::poll_timeout`]
//! has passed; [`Mover::command`] for the control thread's commands; [`Mover::connected`], [`Mover::message`]
//! and [`Mover::closed`] for the network's events. After any of them, until each is exhausted:
//! [`Mover::poll_event`], [`Mover::poll_transmit`] for every open link whose output is short,
//! [`Mover::poll_notify`]. When `message` returned a [`PendingReplay`], do that first, so that the next pull
//! is sent; then [`Mover::replay`], then all of it again.
//!
//! Invariants:
//! - V1: a migration belongs to the mover that [`MoverIndex::of`] names, from start to end. So the commands,
//!   frames and worker messages of one migration are never handled on two threads.
//! - V2: a lane has at most one link; messages over a replaced or closed link are ignored (M10).
//! - V3: every pull, flush and wait for arrivals that a worker sends is answered, by a wake, a refusal, or
//!   the new range table that ends the migration.
//!
//! Ownership: one thread for each mover.

mod arrivals;
mod dialing;
mod flush;
mod inputs;
mod links;
mod outputs;
mod wakes;

pub use links::Link;

use crate::current_table::CurrentTable;
use crate::queue::{MoverIndex, MoverPort, WorkerIndex};
use crate::shared::NodeParts;
use arrivals::Arrivals;
use dialing::Dialing;
use links::{Lanes, LinkEnd, Links};
use sidle_migration::{
    BarrierPassed, BarrierTicket, ExportWriter, Exporter, ImportWriter, Importer, ImporterCounters,
    MigrationSpec, Replay, TargetInput,
};
use sidle_store::{LogHead, Store};
use sidle_types::{Fill, GaveAll, MigrationId, MigrationPolicy, MonotonicUs, NodeId};
use sidle_wire::Lane;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use wakes::Wakes;

/// The control thread's command to a mover: a migration's next step.
pub type MoverCommand = (MigrationId, MoverStep);

/// The next step of a migration at its mover.
#[derive(Debug)]
pub enum MoverStep {
    /// Connect to the source, this node: the migration may begin.
    Expect(NodeId),
    /// Take part as the target: connect to the source.
    StartImport(Box<MigrationSpec>, ImportWriter),
    /// Take part as the source, once the range is tracked or frozen.
    StartExport(Box<MigrationSpec>, ExportWriter),
    /// The migration's allowed load on this node from now on.
    Policy(MigrationPolicy),
    /// Every worker has passed a table that the migration waited for.
    Passed(Table, BarrierPassed),
    /// As the target: the migration is to turn back.
    TurnBack,
    /// It has turned back: nothing is in transit, and its way back begins with what is here.
    Turned,
    /// The target is gone, and the range is this node's again: what was given of it is cleared.
    TakeBack,
    /// As the target: the source restarted, with its durable log.
    SourceRestarted,
    /// As the target: the source is dead, and others own what it had.
    SourceDied,
    /// What was left came from a copy of the source's log, and is all here.
    CopyIsHere,
    /// Drop it: it was never committed, or missing records are given up. Nothing is replayed any more.
    Drop,
}

/// A range table that matters to a migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// Workers mark what they change in the range, which is still served (M11).
    Tracked,
    /// The range is exported: it is frozen (M2).
    Frozen,
    /// Without the migration, which is over: an export's memory is freed (M8), an import's tombstones are
    /// removed (M6).
    Over,
}

impl MoverStep {
    /// Its name in logs.
    pub fn name(&self) -> &'static str {
        match self {
            MoverStep::Expect(..) => "prepare import",
            MoverStep::StartImport(..) => "start import",
            MoverStep::StartExport(..) => "start export",
            MoverStep::Policy(..) => "policy",
            MoverStep::Passed(Table::Tracked, _) => "tracked",
            MoverStep::Passed(Table::Frozen, _) => "frozen",
            MoverStep::Passed(Table::Over, _) => "over",
            MoverStep::TurnBack => "turn back",
            MoverStep::Turned => "turned",
            MoverStep::TakeBack => "take back",
            MoverStep::SourceRestarted => "source restarted",
            MoverStep::SourceDied => "source died",
            MoverStep::CopyIsHere => "copy is here",
            MoverStep::Drop => "drop",
        }
    }
}

/// An action for the mover's driver.
#[derive(Clone, Debug, PartialEq)]
pub enum MoverEvent {
    /// Open a connection to this node's bus address; then [`Mover::connected`] or [`Mover::connect_failed`].
    Connect {
        /// For this migration.
        migration: MigrationId,
        /// For this lane.
        lane: Lane,
        /// The source.
        peer: NodeId,
    },
    /// Close a link, for this reason; its messages are ignored from now on.
    Close(Link, String),
    /// Pass this to the control thread.
    Report(MigrationId, MoverReport),
}

/// A mover's report of a migration to the control thread.
#[derive(Clone, Debug, PartialEq)]
pub enum MoverReport {
    /// Both connections to the source of an expected migration are open.
    Connected,
    /// The source of an expected migration is unreachable after all attempts; or that of a migration that has
    /// begun, after one attempt, with more to follow.
    Unreachable,
    /// Of a copy made before the freeze: the migration may be committed.
    CaughtUp,
    /// The import serves.
    Activated,
    /// Of a range that is given bit by bit: all that was left was given at once.
    GaveAll(GaveAll),
    /// How much has arrived.
    Moved(Box<ImporterCounters>),
    /// The import waits for memory for what arrives; or it continues.
    Stalled(bool),
    /// It is to turn back, and nothing is in transit any more. `owns`: whether this node was given anything.
    Settled {
        /// How much has arrived.
        counters: Box<ImporterCounters>,
        /// Whether this node was given anything.
        owns: bool,
    },
    /// The source is dead: what is left is to be put into the store from a copy of its log.
    AwaitsCopy,
    /// Everything has arrived.
    Finished(Box<ImporterCounters>),
    /// The import cannot continue.
    Failed(String),
    /// Nothing is kept for it here any more: it was dropped, or memory and tombstones are freed.
    Ended,
}

/// Records to replay once the mover's output was taken.
#[derive(Debug)]
#[must_use = "the partition waits until this is replayed"]
pub struct PendingReplay<'b> {
    migration: MigrationId,
    replay: Replay<'b>,
}

/// One migration on this mover: from the command that names it until its end is reported.
#[derive(Debug)]
struct Migration {
    lanes: Lanes,
    role: Role,
    /// Of an export that is given bit by bit: a step that not every worker uses yet.
    step: Option<BarrierTicket>,
}

#[derive(Debug)]
enum Role {
    /// As the target of a migration that may begin: connects to the source.
    Expected(Dialing),
    Import(Box<Import>),
    Export(Box<Exporter>),
}

#[derive(Debug)]
struct Import {
    machine: Importer,
    /// The last report to the control thread, and when.
    reported: ImporterCounters,
    reported_at: MonotonicUs,
}

impl Import {
    /// Handles every input without records: all but messages.
    fn handle(&mut self, now: MonotonicUs, store: &Store, input: TargetInput<'_>) {
        let replay = self.machine.handle(now, store, input);
        assert!(replay.is_none(), "only messages bring records");
    }
}

impl Migration {
    fn new(role: Role) -> Migration {
        Migration { lanes: Lanes::default(), role, step: None }
    }

    fn import(&self) -> Option<&Import> {
        match &self.role {
            Role::Import(import) => Some(import),
            Role::Expected(_) | Role::Export(_) => None,
        }
    }

    fn is_target(&self) -> bool {
        !matches!(self.role, Role::Export(_))
    }

    /// When it is due.
    fn poll_timeout(&self) -> Option<MonotonicUs> {
        match &self.role {
            Role::Expected(dialing) => dialing.due_at(),
            Role::Import(import) => import.machine.poll_timeout(),
            Role::Export(machine) => machine.poll_timeout(),
        }
    }
}

/// A mover thread's state.
pub struct Mover {
    index: MoverIndex,
    movers: usize,
    store: Arc<Store>,
    /// Its log head for flushes' tombstones.
    head: LogHead,
    migrations: BTreeMap<MigrationId, Migration>,
    links: Links,
    arrivals: Arrivals,
    wakes: Wakes,
    /// Where steps are published.
    published: Arc<CurrentTable>,
    events: VecDeque<MoverEvent>,
}

impl Mover {
    /// The mover with this index, of a node with so many movers. `ports`: its ends of the queues, by worker.
    pub fn new(parts: &NodeParts, index: MoverIndex, movers: u16, ports: Vec<MoverPort>) -> Mover {
        Mover {
            index,
            movers: usize::from(movers),
            head: parts.store.log_head(),
            store: Arc::clone(&parts.store),
            migrations: BTreeMap::new(),
            links: Links::default(),
            arrivals: Arrivals::default(),
            wakes: Wakes::new(ports),
            published: Arc::clone(&parts.published),
            events: VecDeque::new(),
        }
    }

    /// Which mover it is.
    pub fn index(&self) -> MoverIndex {
        self.index
    }

    /// Pending work by name, with its count: empty when no migration is open and no message waits.
    pub fn in_hand(&self) -> Vec<(&'static str, usize)> {
        [
            ("migrations", self.migrations.len()),
            ("links", self.links.len()),
            ("commands that wait for arrivals", self.arrivals.len()),
            ("messages to workers", self.wakes.unsent()),
            ("workers to be woken", self.wakes.to_wake()),
            ("events not taken", self.events.len()),
        ]
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .collect()
    }

    /// How full the queues of its migrations are.
    pub fn queues(&self) -> impl Iterator<Item = Fill> {
        let of_machines = self.migrations.values().flat_map(|migration| -> Vec<Fill> {
            match &migration.role {
                Role::Expected(_) => Vec::new(),
                Role::Import(import) => import.machine.queues().collect(),
                Role::Export(machine) => machine.queues().collect(),
            }
        });
        of_machines.chain([self.arrivals.queue()])
    }

    /// How many messages found a worker's queue full.
    pub fn unsent(&self) -> usize {
        self.wakes.unsent()
    }

    fn import(&self, id: MigrationId) -> Option<&Import> {
        self.migrations.get(&id).and_then(Migration::import)
    }

    /// Whether it takes part in no migration.
    pub fn is_idle(&self) -> bool {
        self.migrations.is_empty()
    }
}
