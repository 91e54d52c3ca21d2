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
mod expected;
mod flush;
mod inputs;
mod links;
mod outputs;
mod wakes;

pub use links::Link;

use crate::queue::{MoverIndex, MoverPort, WorkerIndex};
use crate::worker::NodeParts;
use arrivals::Arrivals;
use expected::Expected;
use links::{LinkEnd, Links};
use sidle_migration::{
    BarrierPassed, ExportWriter, Exporter, ImportWriter, Importer, ImporterCounters, MigrationSpec, Replay,
};
use sidle_store::{LogHead, Store};
use sidle_types::{Fill, MigrationId, MigrationPolicy, MonotonicUs, NodeId};
use sidle_wire::{Hello, Lane};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use wakes::Wakes;

/// What the control thread tells a mover.
#[derive(Debug)]
pub enum MoverCommand {
    /// Connect to the source of a migration that may begin.
    Expect(MigrationId, NodeId),
    /// Take part in a migration as its target: connect to the source.
    StartImport(Box<MigrationSpec>, ImportWriter),
    /// Take part in a migration as its source, once it is frozen.
    StartExport(Box<MigrationSpec>, ExportWriter),
    /// How hard the migration may press on this node from now on.
    Policy(MigrationId, MigrationPolicy),
    /// Every worker uses a range table by which it marks what it changes in the range (M11).
    Tracked(MigrationId, BarrierPassed),
    /// Forget the export: the range was copied for nothing, and stays here.
    DropExport(MigrationId),
    /// Every worker uses a range table in which the range is exported (M2).
    Frozen(MigrationId, BarrierPassed),
    /// The migration is over, and every worker uses a range table without it (M8): give the memory back.
    ReleaseExport(MigrationId, BarrierPassed),
    /// The migration is done, and every worker uses a range table without the import: free the tombstones.
    FinishImport(MigrationId, BarrierPassed),
    /// Forget the import, or the copy: it was never committed, or what has not arrived is given up. Nothing
    /// is replayed any more.
    DropImport(MigrationId),
}

impl MoverCommand {
    /// What it is called in logs.
    pub fn name(&self) -> &'static str {
        match self {
            MoverCommand::Expect(..) => "prepare import",
            MoverCommand::StartImport(..) => "start import",
            MoverCommand::StartExport(..) => "start export",
            MoverCommand::Policy(..) => "policy",
            MoverCommand::Tracked(..) => "tracked",
            MoverCommand::DropExport(..) => "drop export",
            MoverCommand::Frozen(..) => "frozen",
            MoverCommand::ReleaseExport(..) => "release export",
            MoverCommand::FinishImport(..) => "finish import",
            MoverCommand::DropImport(..) => "drop import",
        }
    }

    /// The migration that it is about.
    pub fn migration(&self) -> MigrationId {
        match self {
            MoverCommand::StartImport(spec, _) | MoverCommand::StartExport(spec, _) => spec.id,
            MoverCommand::Expect(id, _)
            | MoverCommand::Policy(id, _)
            | MoverCommand::Tracked(id, _)
            | MoverCommand::DropExport(id)
            | MoverCommand::Frozen(id, _)
            | MoverCommand::ReleaseExport(id, _)
            | MoverCommand::FinishImport(id, _)
            | MoverCommand::DropImport(id) => *id,
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
    /// The import has no memory for what arrives, and waits.
    Stalled,
    /// It goes on.
    Resumed,
    /// Everything has arrived.
    Finished(ImporterCounters),
    /// The import cannot go on.
    Failed(String),
    /// The import's tombstones are freed; nothing is kept for it.
    ImportEnded,
    /// The import was forgotten on command; nothing is replayed any more.
    ImportDropped,
    /// The export's memory is given back; nothing is kept for it.
    ExportEnded,
}

/// Records to be replayed once the mover's output was taken.
#[derive(Debug)]
#[must_use = "the partition waits until this is replayed"]
pub struct PendingReplay<'b> {
    migration: MigrationId,
    replay: Replay<'b>,
}

struct Import {
    machine: Importer,
    /// What the control thread was told last, and when.
    told: ImporterCounters,
    told_at: MonotonicUs,
}

/// A mover thread's state.
pub struct Mover {
    index: MoverIndex,
    movers: usize,
    store: Arc<Store>,
    /// Where flushes leave tombstones.
    head: LogHead,
    /// Migrations that may begin.
    expected: Expected,
    imports: BTreeMap<MigrationId, Import>,
    exports: BTreeMap<MigrationId, Exporter>,
    links: Links,
    /// Greetings of targets that know of their migration before this node does: answered as soon as it does.
    early: BTreeMap<Link, Hello>,
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
            expected: Expected::default(),
            imports: BTreeMap::new(),
            exports: BTreeMap::new(),
            links: Links::default(),
            early: BTreeMap::new(),
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
            ("expected imports", self.expected.len()),
            ("imports", self.imports.len()),
            ("exports", self.exports.len()),
            ("links", self.links.len()),
            ("early greetings", self.early.len()),
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
        let imports = self.imports.values().flat_map(|import| import.machine.queues());
        let exports = self.exports.values().flat_map(Exporter::queues);
        imports.chain(exports).chain([self.arrivals.queue()])
    }

    /// How many messages found a worker's queue full.
    pub fn unsent(&self) -> usize {
        self.wakes.unsent()
    }

    /// Whether it takes part in no migration.
    pub fn is_idle(&self) -> bool {
        self.expected.len() == 0 && self.imports.is_empty() && self.exports.is_empty()
    }
}
