//! The node's control: what the coordinator says, done step by step on this node.
//!
//! Purpose: ties the node agent of crate `cluster` to the range table, the barrier and the movers. It decides
//! nothing about the cluster and nothing about a migration's protocol; it sees to it that things happen in
//! the right order.
//!
//! Call order, for whoever drives it: [`NodeControl::handle`] for every input, with [`ControlInput::Timer`]
//! once [`NodeControl::poll_timeout`] has passed; after each call take [`NodeControl::poll_transmit`] and
//! [`NodeControl::poll_event`] until both are empty, and carry the events out in order.
//! [`ControlEvent::NotifyWorkers`] is carried out by waking every worker's thread, so that it calls
//! [`Worker::turn`](crate::Worker::turn).
//!
//! Invariants:
//! - C1 (M2): a mover hears that a range is frozen only with the proof that every worker has passed the table
//!   in which it is exported.
//! - C2 (M8): an export's memory goes back only with the proof that every worker has passed a table without
//!   the export.
//! - C3 (M6): an import's tombstones go only with the proof that every worker has passed a table without the
//!   import.
//! - C4 (M5): an import is prepared only when the store holds nothing in its range, neither values nor
//!   tombstones: an earlier owner's leavings would be taken for newer than what arrives.
//! - C5 (M11): a mover hears that a range is tracked only with the proof that every worker has passed the
//!   table by which it marks what it changes there.
//! - C6 (M11): a range is tracked only where this node owns it and no import or export of its own overlaps
//!   it: what is written into an import is not marked.
//! - C7: nothing is discarded that this node owns, exports, imports or copies. Messages may be late and come
//!   twice (M10), and what was nobody's when they were sent may be somebody's since.
//! - C8 (M11): what is copied ahead of the freeze is served as an import, or not at all: what was deleted or
//!   overwritten since may still be in it. A node may come to own the range without having heard that the
//!   migration ran.
//!
//! Realises: design "Ownership changes use one barrier", and "Fulva, step by step", steps 1 to 3 and 9.
//! Ownership: the control thread.

mod agent;
mod exports;
mod imports;
mod jobs;
mod protocol;
mod requests;
mod table;

pub use protocol::read_protocol;

use crate::bugs::PutBack;
use crate::mover::{MoverCommand, MoverReport};
use crate::outcome::{ControlReply, ControlRequest};
use crate::queue::MoverIndex;
use crate::worker::NodeParts;
use imports::{Import, Preparation};
use jobs::Jobs;
use requests::OpenRequest;
use sidle_cluster::{
    AgentInput, ClusterId, MigrationRecord, NodeAgent, NodeInfo, StartNumber, TabletMap, ToCoordinator,
    ToNode,
};
use sidle_migration::{ExportView, ImportView, Tuning};
use sidle_types::{MigrationId, MonotonicUs, NodeId, PositionRange};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use table::Awaited;

/// How soon the control looks again whether every worker has passed a barrier.
pub const BARRIER_POLL_US: u64 = 100;

/// What happens to a node's control.
#[derive(Debug)]
pub enum ControlInput {
    /// The connection to the coordinator is made, anew or for the first time.
    Connected,
    /// The coordinator said something.
    Message(ToNode),
    /// A mover reported something.
    Mover(MigrationId, MoverReport),
    /// A client asked for something; answered by [`ControlEvent::Reply`] with the same tag.
    Request {
        /// The driver's name for the connection that waits.
        tag: u64,
        /// What was asked.
        request: ControlRequest,
    },
    /// What is wrong with the node's data directory, or that nothing is any more.
    Trouble(Option<String>),
    /// Time has passed.
    Timer,
}

/// What the control wants its driver to do.
#[derive(Debug)]
pub enum ControlEvent {
    /// A range table was published: wake every worker.
    NotifyWorkers,
    /// Hand this to a mover, and wake it.
    Mover(MoverIndex, MoverCommand),
    /// Answer a client's request.
    Reply {
        /// The driver's name for the connection that waits.
        tag: u64,
        /// The reply.
        reply: ControlReply,
    },
    /// The node belongs to this cluster; to be kept with its identity.
    Joined(ClusterId),
    /// The coordinator does not let the node in, for this reason; it will be asked again.
    JoinRefused(String),
    /// Another process has joined with this node's identity, later. This one serves nothing any more, and is
    /// to exit.
    Superseded,
    /// Something that an operator may want to know.
    Note(String),
}

/// A node's control: see the module's header.
pub struct NodeControl {
    me: NodeInfo,
    agent: NodeAgent,
    parts: NodeParts,
    movers: usize,
    tuning: Tuning,
    bugs: PutBack,
    map: Option<Arc<TabletMap>>,
    /// As the target, before commit.
    preparations: BTreeMap<MigrationId, Preparation>,
    /// As the target, from commit on.
    imports: BTreeMap<MigrationId, Import>,
    /// As the source, ranges that will be tracked once they are whole (C6).
    to_track: BTreeMap<MigrationId, MigrationRecord>,
    /// As the source, from commit on, or from when the range is copied before.
    exports: BTreeMap<MigrationId, Arc<ExportView>>,
    /// Migrations that are over and whose leavings a mover clears: exports their records, imports their
    /// tombstones, copies that came to nothing everything.
    clearing: BTreeMap<MigrationId, PositionRange>,
    /// Exports that have to be frozen with the next table.
    to_freeze: Vec<MigrationId>,
    awaited: VecDeque<Awaited>,
    jobs: Jobs,
    requests: BTreeMap<u64, OpenRequest>,
    events: VecDeque<ControlEvent>,
}

impl NodeControl {
    /// The control of a node in a new incarnation. `start`: drawn at random for this process. `cluster`: the
    /// one that the node belongs to, if it has been in one. `movers`: how many there are.
    pub fn new(
        now: MonotonicUs,
        me: NodeInfo,
        start: StartNumber,
        cluster: Option<ClusterId>,
        parts: NodeParts,
        movers: u16,
        tuning: Tuning,
    ) -> NodeControl {
        NodeControl {
            agent: NodeAgent::new(now, me.clone(), start, cluster),
            me,
            parts,
            movers: usize::from(movers),
            tuning,
            bugs: PutBack::default(),
            map: None,
            preparations: BTreeMap::new(),
            imports: BTreeMap::new(),
            to_track: BTreeMap::new(),
            exports: BTreeMap::new(),
            clearing: BTreeMap::new(),
            to_freeze: Vec::new(),
            awaited: VecDeque::new(),
            jobs: Jobs::default(),
            requests: BTreeMap::new(),
            events: VecDeque::new(),
        }
    }

    /// Puts known faults back, into the control and into its agent.
    #[cfg(feature = "bug-switches")]
    pub fn put_back(&mut self, bugs: crate::Bugs, of_cluster: sidle_cluster::Bugs) {
        self.bugs = bugs.into();
        self.agent.put_back(of_cluster);
    }

    /// The node that ran the coordinator in an earlier incarnation of this one.
    pub fn remember_coordinator(&mut self, coordinator: NodeId) {
        self.agent.remember_coordinator(coordinator);
    }

    /// Takes in what happened.
    pub fn handle(&mut self, now: MonotonicUs, input: ControlInput) {
        match input {
            ControlInput::Connected => self.agent.handle(now, AgentInput::Connected),
            ControlInput::Message(message) => self.agent.handle(now, AgentInput::Message(message)),
            ControlInput::Mover(migration, report) => self.mover_reported(now, migration, report),
            ControlInput::Request { tag, request } => self.request(now, tag, request),
            ControlInput::Trouble(trouble) => self.agent.handle(now, AgentInput::Trouble(trouble)),
            ControlInput::Timer => {}
        }
        self.follow_agent(now);
        self.pass_barriers(now);
        self.run_jobs(now);
        self.prepare_waiting(now);
        self.track_waiting();
        self.follow_agent(now);
        if self.agent.poll_timeout().is_some_and(|due| due <= now) {
            let load = self.load();
            self.agent.handle(now, AgentInput::Load(load));
            self.agent.handle(now, AgentInput::Timer);
            self.follow_agent(now);
        }
        self.parts.shared.unheard.set_coordinator(self.agent.coordinator());
    }

    /// The next message to the coordinator. Without a connection to it, it is dropped.
    pub fn poll_transmit(&mut self) -> Option<ToCoordinator> {
        self.agent.poll_transmit()
    }

    /// The next thing to do.
    pub fn poll_event(&mut self) -> Option<ControlEvent> {
        self.events.pop_front()
    }

    /// When [`ControlInput::Timer`] is due, if nothing happens before. `now`: the present.
    pub fn poll_timeout(&self, now: MonotonicUs) -> Option<MonotonicUs> {
        let barrier = (!self.awaited.is_empty()).then(|| now.plus_us(BARRIER_POLL_US));
        [self.agent.poll_timeout(), barrier, self.jobs.deadline()].into_iter().flatten().min()
    }

    /// The node.
    pub fn me(&self) -> &NodeInfo {
        &self.me
    }

    /// The map that was published last.
    pub fn map(&self) -> Option<&Arc<TabletMap>> {
        self.map.as_ref()
    }

    /// The node's side of the conversation with the coordinator, for status displays.
    pub fn agent(&self) -> &NodeAgent {
        &self.agent
    }

    /// The imports that this node takes part in, from commit until they are over.
    pub fn imports(&self) -> impl Iterator<Item = &Arc<ImportView>> {
        self.imports.values().map(|import| &import.view)
    }

    /// The exports that this node takes part in, from commit, or the copy before it, until their memory goes
    /// back.
    pub fn exports(&self) -> impl Iterator<Item = &Arc<ExportView>> {
        self.exports.values()
    }

    /// How many published tables something waits for.
    pub fn awaited_tables(&self) -> usize {
        self.awaited.len()
    }

    /// How many clients' requests wait for the coordinator's reply.
    pub fn open_requests(&self) -> usize {
        self.requests.len()
    }

    /// What is in hand, in words, each with how many of it there are: nothing when no migration and no
    /// request is under way and everything is cleared.
    pub fn in_hand(&self) -> Vec<(&'static str, usize)> {
        let own = [
            ("preparations", self.preparations.len()),
            ("imports", self.imports.len()),
            ("ranges to be tracked", self.to_track.len()),
            ("exports", self.exports.len()),
            ("ranges being cleared by movers", self.clearing.len()),
            ("ranges to be frozen", self.to_freeze.len()),
            ("tables not passed", self.awaited.len()),
            ("ranges to be cleared", self.jobs.len()),
            ("open requests", self.requests.len()),
            ("events not taken", self.events.len()),
        ];
        own.into_iter().chain(self.agent.in_hand()).filter(|(_, count)| *count > 0).collect()
    }

    fn event(&mut self, event: ControlEvent) {
        self.events.push_back(event);
    }

    fn command(&mut self, command: MoverCommand) {
        let mover = MoverIndex::of(command.migration(), self.movers);
        self.event(ControlEvent::Mover(mover, command));
    }
}
