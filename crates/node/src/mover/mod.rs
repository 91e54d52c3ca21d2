//! One mover: the migrations that one mover thread carries out.
//!
//! Purpose: composition only. A mover owns the source and target machines of its migrations and knows which
//! connection each of their lanes runs over; it carries frames, worker messages and commands of the control
//! thread in, and frames, wakes and reports out. What a migration does is decided in crate `migration`.
//!
//! Call order, for whoever drives it: [`Mover::turn`] whenever the thread was notified or
//! [`Mover::poll_timeout`] has passed; [`Mover::command`] for what the control thread says;
//! [`Mover::connected`], [`Mover::message`] and [`Mover::closed`] for what the network says. After any of
//! them, until each is exhausted: [`Mover::poll_event`], [`Mover::poll_transmit`] for every open link whose
//! output is short, [`Mover::poll_notify`]. When `message` returned a [`PendingReplay`], that comes first, so
//! that the next pull is on its way; then [`Mover::replay`], then all of it again.
//!
//! Invariants:
//! - V1: a migration belongs to the mover that [`MoverIndex::of`] names, for its whole life; so the commands,
//!   frames and worker messages of one migration are never handled on two threads.
//! - V2: a lane has at most one link; a link that was replaced or closed is never heard again (M10).
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

use crate::queue::{MoverIndex, MoverPort, WorkerIndex};
use crate::shared::NodeParts;
use arrivals::Arrivals;
use dialing::Dialing;
use links::{Lanes, LinkEnd, Links};
use sidle_migration::{
    BarrierPassed, ExportWriter, Exporter, ImportWriter, Importer, ImporterCounters, MigrationSpec, Replay,
    TargetInput,
};
use sidle_store::{LogHead, Store};
use sidle_types::{Fill, MigrationId, MigrationPolicy, MonotonicUs, NodeId};
use sidle_wire::Lane;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use wakes::Wakes;

/// What the control thread tells a mover: a migration's next step.
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
    /// How hard the migration may press on this node from now on.
    Policy(MigrationPolicy),
    /// Every worker has passed a table that this waited for.
    Passed(Table, BarrierPassed),
    /// Forget it: it was never committed, or what has not arrived is given up. Nothing is replayed any more.
    Drop,
}

/// A range table that matters to a migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// Workers mark what they change in the range, which is still served (M11).
    Tracked,
    /// The range is exported: it is frozen (M2).
    Frozen,
    /// It is without the migration, which is over: an export's memory goes back (M8), an import's tombstones
    /// go (M6).
    Over,
}

impl MoverStep {
    /// What it is called in logs.
    pub fn name(&self) -> &'static str {
        match self {
            MoverStep::Expect(..) => "prepare import",
            MoverStep::StartImport(..) => "start import",
            MoverStep::StartExport(..) => "start export",
            MoverStep::Policy(..) => "policy",
            MoverStep::Passed(Table::Tracked, _) => "tracked",
            MoverStep::Passed(Table::Frozen, _) => "frozen",
            MoverStep::Passed(Table::Over, _) => "over",
            MoverStep::Drop => "drop",
        }
    }
}

/// What a mover wants its driver to do.
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
    /// Close a link, for this reason; nothing of it is heard any more.
    Close(Link, String),
    /// Hand this to the control thread.
    Report(MigrationId, MoverReport),
}

/// What a mover tells the control thread of a migration.
#[derive(Clone, Debug, PartialEq)]
pub enum MoverReport {
    /// Both connections to the source of an expected migration are open.
    Connected,
    /// The source of an expected migration could not be reached, however often it was tried; or that of one
    /// that has begun could not for once, and will be tried again.
    Unreachable,
    /// Of a copy made before the freeze: the migration may be committed.
    CaughtUp,
    /// The import serves.
    Activated,
    /// How much has arrived.
    Moved(ImporterCounters),
    /// The import has no memory for what arrives, and waits; or goes on.
    Stalled(bool),
    /// Everything has arrived.
    Finished(ImporterCounters),
    /// The import cannot go on.
    Failed(String),
    /// Nothing is kept for it here any more: it was dropped, or memory and tombstones are given back.
    Ended,
}

/// Records to be replayed once the mover's output was taken.
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
    /// What the control thread was told last, and when.
    told: ImporterCounters,
    told_at: MonotonicUs,
}

impl Import {
    /// Takes in whatever brings no records: all but messages.
    fn handle(&mut self, now: MonotonicUs, store: &Store, input: TargetInput<'_>) {
        let replay = self.machine.handle(now, store, input);
        assert!(replay.is_none(), "only messages bring records");
    }
}

impl Migration {
    fn new(role: Role) -> Migration {
        Migration { lanes: Lanes::default(), role }
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
    /// Where flushes leave tombstones.
    head: LogHead,
    migrations: BTreeMap<MigrationId, Migration>,
    links: Links,
    arrivals: Arrivals,
    wakes: Wakes,
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
            events: VecDeque::new(),
        }
    }

    /// Which mover it is.
    pub fn index(&self) -> MoverIndex {
        self.index
    }

    /// What is in hand, in words, each with how many of it there are: nothing when no migration is under way
    /// and nobody has to be told anything.
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
