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

mod exports;
mod imports;
mod jobs;
mod protocol;
mod requests;
mod table;

pub use protocol::read_protocol;

use crate::mover::{MoverCommand, MoverReport, MoverStep, Table};
use crate::outcome::{ControlReply, ControlRequest};
use crate::queue::MoverIndex;
use crate::range_table::RangeTable;
use crate::shared::NodeParts;
use imports::Import;
use jobs::Jobs;
use requests::Requests;
use sidle_cluster::{
    AgentEvent, AgentInput, ClusterId, End, HostPort, MigrationRecord, NodeAgent, NodeInfo, NodeLoad,
    SourceStage, StartNumber, TabletMap, TargetStage, ToCoordinator, ToNode,
};
use sidle_migration::{BarrierPassed, BarrierTicket, ExportView, ImportView, MigrationSpec, Tuning};
use sidle_types::{MigrationId, MonotonicUs, NodeId, ProtocolVersion, Speaks, fault};
use std::collections::VecDeque;
use std::sync::Arc;
use table::{Barriers, Then};

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
    /// While the driver looked for the coordinator it tried to reach the node at this address.
    Tried {
        /// Where nodes connect to it.
        bus_addr: HostPort,
        /// Whether it proved that it belongs to the cluster.
        is_reached: bool,
    },
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
    agent: NodeAgent<Arc<ExportView>, Import>,
    parts: NodeParts,
    movers: usize,
    tuning: Tuning,
    map: Option<Arc<TabletMap>>,
    barriers: Barriers,
    jobs: Jobs,
    requests: Requests,
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
            agent: NodeAgent::new(now, me, start, cluster),
            parts,
            movers: usize::from(movers),
            tuning,
            map: None,
            barriers: Barriers::default(),
            jobs: Jobs::default(),
            requests: Requests::default(),
            events: VecDeque::new(),
        }
    }

    /// From now on it is the control of a program that speaks these versions, not those of this build.
    pub fn set_speaks(&mut self, speaks: Speaks) {
        self.agent.set_speaks(speaks);
    }

    /// The version that this node writes in to other members, except about a migration, which has its own:
    /// the cluster's.
    pub fn version(&self) -> ProtocolVersion {
        self.map.as_ref().map_or(self.agent.speaks().lowest, |map| map.version())
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
            ControlInput::Mover(migration, report) => self.mover_reported(migration, report),
            ControlInput::Request { tag, request } => {
                let request = self.requests.open(tag, request);
                self.agent.handle(now, AgentInput::Request(tag, request));
            }
            ControlInput::Trouble(trouble) => self.agent.handle(now, AgentInput::Trouble(trouble)),
            ControlInput::Tried { bus_addr, is_reached } => {
                let table = self.parts.published.table();
                let there = table.map().nodes().iter().filter(|node| node.bus_addr == bus_addr);
                let there = there.map(|node| node.id).collect();
                self.agent.handle(now, AgentInput::Tried(there, is_reached));
            }
            ControlInput::Timer => {}
        }
        self.follow_agent();
        self.pass_barriers(now);
        if let Some(cleared) = self.jobs.run(now, &self.parts.store) {
            self.cleared_unserved(cleared);
        }
        self.prepare_waiting();
        self.track_waiting();
        self.follow_agent();
        if self.agent.poll_timeout().is_some_and(|due| due <= now) {
            let load = self.load();
            self.agent.handle(now, AgentInput::Load(load));
            self.agent.handle(now, AgentInput::Timer);
            self.follow_agent();
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
        let barrier = (self.barriers.len() > 0).then(|| now.plus_us(BARRIER_POLL_US));
        [self.agent.poll_timeout(), barrier, self.jobs.deadline()].into_iter().flatten().min()
    }

    /// The node.
    pub fn me(&self) -> &NodeInfo {
        self.agent.me()
    }

    /// The map that was published last.
    pub fn map(&self) -> Option<&Arc<TabletMap>> {
        self.map.as_ref()
    }

    /// The node's side of the conversation with the coordinator, for status displays.
    pub fn agent(&self) -> &NodeAgent<Arc<ExportView>, Import> {
        &self.agent
    }

    /// The imports that this node takes part in, from commit until they are over.
    pub fn imports(&self) -> impl Iterator<Item = &Arc<ImportView>> {
        let targets = self.agent.migrations.targets.iter();
        let running = targets.filter(|(_, target)| target.stage() == TargetStage::Importing);
        running.filter_map(|(_, target)| target.import.as_ref()).map(|import| &import.view)
    }

    /// The exports that this node takes part in, from commit, or the copy before it, until their memory goes
    /// back.
    pub fn exports(&self) -> impl Iterator<Item = &Arc<ExportView>> {
        let sources =
            self.agent.migrations.sources.iter().filter(|(_, source)| source.stage < SourceStage::Over);
        sources.filter_map(|(_, source)| source.view.as_ref())
    }

    /// How many published tables something waits for.
    pub fn awaited_tables(&self) -> usize {
        self.barriers.len()
    }

    /// How many clients' requests wait for the coordinator's reply.
    pub fn open_requests(&self) -> usize {
        self.requests.len()
    }

    /// What is in hand, in words, each with how many of it there are: nothing when no migration and no
    /// request is under way and everything is cleared.
    pub fn in_hand(&self) -> Vec<(&'static str, usize)> {
        let own = [
            ("tables not passed", self.barriers.len()),
            ("ranges to be cleared", self.jobs.len()),
            ("open requests", self.requests.len()),
            ("events not taken", self.events.len()),
        ];
        own.into_iter().chain(self.agent.in_hand()).filter(|(_, count)| *count > 0).collect()
    }

    fn event(&mut self, event: ControlEvent) {
        self.events.push_back(event);
    }

    fn command(&mut self, migration: MigrationId, step: MoverStep) {
        let mover = MoverIndex::of(migration, self.movers);
        self.event(ControlEvent::Mover(mover, (migration, step)));
    }

    /// Does everything that the agent asks for.
    fn follow_agent(&mut self) {
        while let Some(event) = self.agent.poll_event() {
            match event {
                AgentEvent::Joined(cluster) => self.event(ControlEvent::Joined(cluster)),
                AgentEvent::JoinRefused(why) => self.event(ControlEvent::JoinRefused(why)),
                AgentEvent::Survey(id, partitions) => self.survey(id, partitions),
                AgentEvent::Prepare(id) => self.prepare(id),
                AgentEvent::Track(id) => self.drop_tracked_before(id),
                AgentEvent::Policy(id, policy) => self.command(id, MoverStep::Policy(policy)),
                AgentEvent::StartExport(id) => self.start_export(id),
                AgentEvent::StartImport(id) => self.start_import(id),
                AgentEvent::Publish(map) => {
                    let epoch = map.epoch();
                    self.map = Some(map);
                    self.meet_missed_commits();
                    self.publish(vec![Then::TellAgent(epoch)]);
                }
                AgentEvent::Over(id, End::GivenAway(range)) => self.release(id, range),
                AgentEvent::Over(id, End::Complete) => self.finish_import(id),
                AgentEvent::Over(id, End::GivenUp(why)) => {
                    self.keep(id);
                    self.give_up(id, why);
                }
                AgentEvent::Suspected(nodes) => {
                    self.parts.shared.unheard.replace(nodes, self.agent.coordinator())
                }
                AgentEvent::Superseded => {
                    self.serve_nothing();
                    self.event(ControlEvent::Superseded);
                }
                AgentEvent::Reply(tag, reply) => {
                    let reply = self.requests.close(tag, reply);
                    reply.into_iter().for_each(|reply| self.event(ControlEvent::Reply { tag, reply }));
                }
            }
        }
    }

    /// How full the node is.
    fn load(&self) -> NodeLoad {
        let memory = self.parts.store.memory();
        NodeLoad {
            keys: self.parts.published.table().key_count(&self.parts.store),
            memory_used_bytes: memory.log_live + memory.index,
            memory_limit_bytes: memory.limit,
        }
    }

    /// Publishes the table of the present map, imports and exports. What was not waited for before may wait
    /// for it.
    fn publish(&mut self, mut then: Vec<Then>) {
        let Some(map) = &self.map else { return };
        let map = Arc::clone(map);
        let imports: Vec<_> = self.imports().cloned().collect();
        let exports: Vec<_> = self.exports().cloned().collect();
        debug_assert_eq!(self.owned_copies(), [], "a copy would be served before its last round (C8)");
        let table = RangeTable::new(self.me().id, Arc::clone(&map), &imports, &exports);
        then.extend(self.begin_freezes(&map));
        let ticket = self.parts.published.publish(Arc::new(table));
        self.do_at_once(&mut then, &ticket);
        self.event(ControlEvent::NotifyWorkers);
        self.barriers.add(ticket, then);
    }

    /// Does now what is to be done behind the barrier, where a fault that is put back has it so.
    fn do_at_once(&mut self, then: &mut Vec<Then>, ticket: &BarrierTicket) {
        let is_early = |step: &mut Then| match step {
            Then::Mover(_, Table::Tracked) => fault!(TrackingWithoutBarrier),
            Then::Mover(_, Table::Frozen) => fault!(FreezeWithoutBarrier),
            _ => false,
        };
        for step in then.extract_if(.., is_early).collect::<Vec<_>>() {
            self.pass(MonotonicUs(0), step, ticket.unproved());
        }
    }

    /// Publishes a table by which this node serves nothing.
    fn serve_nothing(&mut self) {
        self.map = None;
        let _nothing_waits =
            self.parts.published.publish(Arc::new(RangeTable::before_joining(self.me().clone())));
        self.event(ControlEvent::NotifyWorkers);
    }

    /// Goes on with what waited for tables that every worker has passed, in the order in which they were
    /// published.
    fn pass_barriers(&mut self, now: MonotonicUs) {
        while let Some((step, proof)) = self.barriers.next() {
            self.pass(now, step, proof);
        }
    }

    fn pass(&mut self, now: MonotonicUs, step: Then, proof: BarrierPassed) {
        match step {
            Then::TellAgent(epoch) => self.agent.handle(now, AgentInput::Published(epoch)),
            Then::Mover(id, table) => self.command(id, MoverStep::Passed(table, proof)),
            Then::Discard(range) => self.jobs.discard(self.leavings_in(range), proof),
            Then::Sweep(range) => self.jobs.sweep(range, proof),
        }
    }
}

/// What the machines of a migration are made from, or why it cannot be.
fn spec(record: &MigrationRecord, tuning: Tuning, speaks: Speaks) -> Result<MigrationSpec, String> {
    if let Some(why) = speaks.why_not(record.version) {
        return Err(why);
    }
    let protocol = sidle_migration::protocol(&record.protocol).map_err(|error| error.to_string())?;
    let spec = MigrationSpec {
        id: record.id,
        epoch: record.epoch,
        range: record.range,
        version: record.version,
        source: record.source,
        target: record.target,
        partitions: record.partitions.clone(),
        protocol,
        bytes: record.counters.bytes,
        policy: record.policy,
        tuning,
    };
    spec.check().map_err(|error| error.to_string())?;
    Ok(spec)
}
