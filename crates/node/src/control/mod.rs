//! The node's control: carries out the coordinator's decisions step by step on this node.
//!
//! Purpose: ties the node agent of crate `cluster` to the range table, the barrier and the movers. It decides
//! nothing about the cluster or a migration's protocol; it keeps the steps in the right order.
//!
//! Call order, for its driver: [`NodeControl::handle`] for every input, with [`ControlInput::Timer`] once
//! [`NodeControl::poll_timeout`] has passed. After each call take [`NodeControl::poll_transmit`] and
//! [`NodeControl::poll_event`] until both are empty, and carry the events out in order. For
//! [`ControlEvent::NotifyWorkers`] wake every worker's thread, so that it calls
//! [`Worker::turn`](crate::Worker::turn).
//!
//! Invariants:
//! - C1 (M2): a mover is notified of a frozen range only with the proof that every worker has passed the
//!   table that exports it.
//! - C2 (M8): an export's memory is freed only with the proof that every worker has passed a table without
//!   the export.
//! - C3 (M6): an import's tombstones are removed only with the proof that every worker has passed a table
//!   without the import.
//! - C4 (M5): an import is prepared only when the store holds nothing in its range, neither values nor
//!   tombstones: an earlier owner's records would count as newer than what arrives.
//! - C5 (M11): a mover is notified of a tracked range only with the proof that every worker has passed the
//!   table that makes it mark changes there.
//! - C6 (M11): a range is tracked only where this node owns it and no import or export of its own overlaps
//!   it: what is written into an import is not marked.
//! - C7: nothing is discarded that this node owns, exports, imports or copies. Messages may be delayed or
//!   duplicated (M10): what was unused when they were sent may be in use since.
//! - C8 (M11): what is copied ahead of the freeze is served as an import, or not at all: it may hold what was
//!   deleted or overwritten since. A node may come to own the range without a report that the migration ran.
//! - C9 (M20): a way back begins with this node's share of the migration that it continues, in the table of
//!   the map in which it runs. No barrier is needed: neither end's share changes meanwhile.
//! - C10: a target reports that all has arrived, or that nothing is in transit, only when its durable log, if
//!   it has one, is synced up to there, and the copies of that have it: the source then forgets its copy, or
//!   what it gave.
//! - C11: a mover is notified of a frozen range only when the durable log, if there is one, is safe up to the
//!   last change there: what the target shows of it is in a log.
//! - C12 (M33): the agent learns that a map is used only when the durable log, if there is one, is synced up
//!   to what was noted by that map. So a way back begins only when its target's log has the share it begins
//!   with.
//! - C13: what is taken over from a dead node is put into the store only once nothing of it is being cleared.
//!
//! Realises: Fulva, III (initiation and end of a migration).
//! Ownership: the control thread.

mod exports;
mod freezes;
mod imports;
mod jobs;
mod protocol;
mod reports;
mod requests;
mod table;
mod takeovers;
mod unsynced;

pub use protocol::read_protocol;

use crate::mover::{MoverCommand, MoverReport, MoverStep, Table};
use crate::outcome::{ControlReply, ControlRequest};
use crate::queue::MoverIndex;
use crate::range_table::RangeTable;
use crate::shared::NodeParts;
use freezes::Freezes;
use imports::{Import, copy_for};
use jobs::Jobs;
use reports::Reports;
use requests::Requests;
use sidle_cluster::{
    AgentEvent, AgentInput, ClusterId, End, HostPort, Incarnation, LogCopies, MigrationRecord, NodeAgent,
    NodeInfo, NodeLoad, SourceStage, StartNumber, TabletMap, Takeover, TargetStage, ToCoordinator, ToNode,
};
use sidle_migration::{BarrierPassed, BarrierTicket, Copies, ExportView, ImportView, MigrationSpec, Tuning};
use sidle_types::{
    CommitNumber, LogId, MigrationId, MonotonicUs, NodeId, PositionRange, ProtocolVersion, Speaks,
    TabletEpoch, fault,
};
use std::collections::VecDeque;
use std::sync::Arc;
use table::{Barriers, Then};
pub use takeovers::CopyToRead;
use takeovers::Takeovers;
use unsynced::Unsynced;

/// How often the control checks whether every worker has passed a barrier.
pub const BARRIER_POLL_US: u64 = 100;

/// An input of a node's control.
#[derive(Debug)]
pub enum ControlInput {
    /// The connection to the coordinator is open, for the first time or again.
    Connected,
    /// The coordinator sent a message.
    Message(ToNode),
    /// A mover reported an event.
    Mover(MigrationId, MoverReport),
    /// A client's request; answered by [`ControlEvent::Reply`] with the same tag.
    Request {
        /// The driver's name for the connection that waits.
        tag: u64,
        /// The request.
        request: ControlRequest,
    },
    /// A fault of the node's data directory; `None`: it is well again.
    Trouble(Option<String>),
    /// The driver tried to reach the node at this address while it looked for the coordinator.
    Tried {
        /// Its bus address.
        bus_addr: HostPort,
        /// Whether it proved that it belongs to the cluster.
        is_reached: bool,
    },
    /// Which copies of the node's log are to count; answered by [`ControlEvent::Copies`].
    Copies(LogCopies),
    /// Everything of a range is here that [`ControlEvent::TakeOver`] named, and the durable log has it.
    TookOver(PositionRange, TabletEpoch),
    /// A range that [`ControlEvent::TakeOver`] named cannot be read, for this reason. Requests do not
    /// wait for it any more.
    TakeoverFails(PositionRange, TabletEpoch, String),
    /// Time has passed.
    Timer,
}

/// An action for the driver.
#[derive(Debug)]
pub enum ControlEvent {
    /// A range table was published: wake every worker.
    NotifyWorkers,
    /// Pass this to a mover, and wake it.
    Mover(MoverIndex, MoverCommand),
    /// Answer a client's request.
    Reply {
        /// The driver's name for the connection that waits.
        tag: u64,
        /// The reply.
        reply: ControlReply,
    },
    /// The node belongs to this cluster; keep that with its identity.
    Joined(ClusterId),
    /// The coordinator refuses the node, for this reason; the node will try again.
    JoinRefused(String),
    /// Another process has joined with this node's identity, later. This one serves nothing any more, and
    /// must exit.
    Superseded,
    /// The coordinator's record of the copies of the node's log, if there is one.
    Copies(Option<LogCopies>),
    /// Whether others have taken over what this log of the node had, which was asked.
    LogFate(LogId, bool),
    /// Fence this node's copy of a dead node's log, then put what it has into the store; then
    /// [`ControlInput::TookOver`], or [`ControlInput::TakeoverFails`].
    TakeOver(CopyToRead),
    /// A note for operators.
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
    unsynced: Unsynced,
    freezes: Freezes,
    reports: Reports,
    requests: Requests,
    takeovers: Takeovers,
    events: VecDeque<ControlEvent>,
}

impl NodeControl {
    /// The control of a node in a new incarnation. `start`: random, drawn for this process. `cluster`: the
    /// node's cluster, if it has joined one. `movers`: their number.
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
            unsynced: Unsynced::default(),
            freezes: Freezes::default(),
            reports: Reports::default(),
            requests: Requests::default(),
            takeovers: Takeovers::default(),
            events: VecDeque::new(),
        }
    }

    /// Sets since which incarnation the node's durable log has everything that it acknowledged, if it has
    /// one: what a migration left there then is there still. Call it before the node joins.
    pub fn set_log_since(&mut self, log_since: Option<Incarnation>) {
        self.agent.set_log_since(log_since);
    }

    /// Has it ask whether others have taken over what this log had, and not join. `None`: it asks no more,
    /// and joins.
    pub fn ask_for_log(&mut self, now: MonotonicUs, log: Option<LogId>) {
        self.agent.ask_for_log(now, log);
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

    /// Handles an input.
    pub fn handle(&mut self, now: MonotonicUs, input: ControlInput) {
        match input {
            ControlInput::Connected => self.agent.handle(now, AgentInput::Connected),
            ControlInput::Message(message) => self.agent.handle(now, AgentInput::Message(message)),
            ControlInput::Mover(migration, report) => self.mover_reported(migration, report),
            // The server does not send them on: here there are no files.
            ControlInput::Request {
                tag,
                request: ControlRequest::LoadUsers { .. } | ControlRequest::SaveUsers,
            } => {
                let reply = ControlReply::Error("ERR there is no file of users".to_owned());
                self.event(ControlEvent::Reply { tag, reply });
            }
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
            ControlInput::Copies(copies) => self.agent.handle(now, AgentInput::Copies(copies)),
            ControlInput::TookOver(range, epoch) => self.took_over(now, range, epoch),
            ControlInput::TakeoverFails(range, epoch, why) => {
                if self.takeovers.fails(now, range, epoch) {
                    self.publish(Vec::new());
                }
                self.agent.handle(now, AgentInput::CannotTakeOver(range, epoch, why));
            }
            ControlInput::Timer => {}
        }
        self.follow_agent();
        self.pass_barriers(now);
        self.pass_safe();
        self.report_published(now);
        if let Some(cleared) = self.jobs.run(now, &self.parts.store) {
            self.cleared_unserved(cleared);
        }
        self.report_synced();
        self.prepare_waiting();
        self.begin_takeovers(now);
        self.track_waiting();
        self.follow_agent();
        if self.agent.poll_timeout().is_some_and(|due| due <= now) {
            let load = self.load();
            self.agent.handle(now, AgentInput::Load(load));
            self.agent.handle(now, AgentInput::Timer);
            self.follow_agent();
        }
        let unreachable = &self.parts.shared.unreachable;
        unreachable.set_coordinator(self.agent.coordinator());
        if self.agent.others_may_coordinate() {
            unreachable.set_others_may_coordinate();
        }
    }

    /// The next message to the coordinator. Without a connection to it, it is dropped.
    pub fn poll_transmit(&mut self) -> Option<ToCoordinator> {
        self.agent.poll_transmit()
    }

    /// The next action.
    pub fn poll_event(&mut self) -> Option<ControlEvent> {
        self.events.pop_front()
    }

    /// When [`ControlInput::Timer`] is due, unless another input comes first. `now`: the present.
    pub fn poll_timeout(&self, now: MonotonicUs) -> Option<MonotonicUs> {
        let waits = self.barriers.len() + self.freezes.len() > 0;
        let barrier = waits.then(|| now.plus_us(BARRIER_POLL_US));
        let synced = [self.unsynced.deadline(now), self.reports.deadline(now)];
        let own = [barrier, self.jobs.deadline(), self.takeovers.deadline()].into_iter().chain(synced);
        own.chain([self.agent.poll_timeout()]).flatten().min()
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

    /// The exports that this node takes part in, from commit, or the copy before it, until their memory is
    /// freed.
    pub fn exports(&self) -> impl Iterator<Item = &Arc<ExportView>> {
        let sources =
            self.agent.migrations.sources.iter().filter(|(_, source)| source.stage < SourceStage::Over);
        sources.filter_map(|(_, source)| source.view.as_ref())
    }

    /// The number of published tables with pending steps.
    pub fn awaited_tables(&self) -> usize {
        self.barriers.len()
    }

    /// The number of clients' requests that wait for the coordinator's reply.
    pub fn open_requests(&self) -> usize {
        self.requests.len()
    }

    /// Pending work by name, with its count: empty when no migration and no request is open and everything is
    /// cleared.
    pub fn in_hand(&self) -> Vec<(&'static str, usize)> {
        let own = [
            ("tables not passed", self.barriers.len()),
            ("freezes that no commit has", self.freezes.len()),
            ("maps whose notes are not synced", self.reports.len()),
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

    /// Carries out the agent's requests.
    fn follow_agent(&mut self) {
        while let Some(event) = self.agent.poll_event() {
            match event {
                AgentEvent::Joined(cluster) => self.event(ControlEvent::Joined(cluster)),
                AgentEvent::JoinRefused(why) => self.event(ControlEvent::JoinRefused(why)),
                AgentEvent::Survey(id, partitions) => self.survey(id, partitions),
                AgentEvent::Prepare(id) => self.prepare(id),
                AgentEvent::Track(id) => self.drop_tracked_before(id),
                AgentEvent::Policy(id, policy) => self.command(id, MoverStep::Policy(policy)),
                AgentEvent::TurnsBack(id) => self.command(id, MoverStep::TurnBack),
                AgentEvent::Settled(id, back) => self.note_kept(id, back),
                AgentEvent::StartExport(id) => self.start_export(id),
                AgentEvent::StartImport(id) => self.start_import(id),
                AgentEvent::OtherEndRestarted(id) => {
                    self.give_all(id);
                    self.source_restarted(id);
                }
                AgentEvent::Publish(map) => {
                    let mut then = vec![Then::NotifyAgent(map.epoch())];
                    let is_first = self.map.replace(map).is_none();
                    self.meet_missed_commits();
                    if is_first {
                        then.extend(self.sort_recovered());
                    }
                    self.publish(then);
                }
                AgentEvent::Over(id, end) => self.over(id, end),
                AgentEvent::Suspected(nodes) => {
                    self.parts.shared.unreachable.replace(nodes, self.agent.coordinator())
                }
                AgentEvent::Superseded => {
                    self.serve_nothing();
                    self.event(ControlEvent::Superseded);
                }
                AgentEvent::Copies(copies) => self.event(ControlEvent::Copies(copies)),
                AgentEvent::LogFate(log, is_over) => self.event(ControlEvent::LogFate(log, is_over)),
                AgentEvent::Reply(tag, reply) => {
                    let reply = self.requests.close(tag, reply);
                    reply.into_iter().for_each(|reply| self.event(ControlEvent::Reply { tag, reply }));
                }
            }
        }
    }

    /// A migration is over.
    fn over(&mut self, id: MigrationId, end: End) {
        self.forget_kept(id);
        match end {
            End::GivenAway(range) => self.release(id, range),
            End::Complete => self.finish_import(id),
            End::GivenUp(why) => {
                self.keep(id);
                self.give_up(id, why);
            }
        }
    }

    /// Begins what this node is to take over, once nothing of the range is being cleared, and no migration
    /// has anything there (C13).
    fn begin_takeovers(&mut self, now: MonotonicUs) {
        let Some(map) = &self.map else { return };
        let own = || map.takeovers().iter().filter(|takeover| takeover.owner == self.agent.me().id);
        let imports = || self.awaiting_copies().map(|target| (target.record.range, target.record.epoch));
        let listed: Vec<_> =
            own().map(|takeover| (takeover.range, takeover.epoch)).chain(imports()).collect();
        let is_due = |range, epoch| self.takeovers.is_due(now, range, epoch);
        let ranges = own().filter(|takeover| is_due(takeover.range, takeover.epoch));
        let rests = self.awaiting_copies().filter(|at| is_due(at.record.range, at.record.epoch));
        let ranges = ranges.cloned().map(|takeover| CopyToRead::instead(takeover, map));
        let due: Vec<CopyToRead> = ranges.chain(rests.filter_map(copy_for)).collect();
        self.takeovers.keep(listed);
        for task in due {
            let Takeover { range, epoch, .. } = task.takeover;
            let is_in_the_way = !task.keeps && self.has_records_in(range)
                || self.jobs.overlaps(range)
                || self.barriers.clear_in(range);
            if !is_in_the_way {
                self.takeovers.begin(range, epoch);
                self.event(ControlEvent::TakeOver(task));
            }
        }
    }

    /// The driver has put everything of a range into the store, and the durable log has it.
    fn took_over(&mut self, now: MonotonicUs, range: PositionRange, epoch: TabletEpoch) {
        if !self.takeovers.has_begun(range, epoch) {
            return;
        }
        let is_listed = |map: &Arc<TabletMap>| map.takeover_at(range.first()).is_some();
        match self.map.as_ref().is_some_and(is_listed) {
            true => self.agent.handle(now, AgentInput::TookOver(range, epoch)),
            false => self.copy_is_here(range, epoch),
        }
    }

    /// The last commit that this node's disk has for certain, and that the copies of its log have: who takes
    /// it over reads one of them.
    fn kept_commit(&self) -> CommitNumber {
        let synced = self.parts.shared.durability.synced();
        self.parts.store.commits().map_or(synced, |commits| commits.safe().min(synced))
    }

    /// How full the node is.
    fn load(&self) -> NodeLoad {
        let memory = self.parts.store.memory();
        NodeLoad {
            keys: self.parts.published.table().key_count(&self.parts.store),
            memory_used_bytes: memory.log_live + memory.index,
            memory_limit_bytes: memory.limit,
            taking_over: self.parts.shared.taking_over.progress(),
        }
    }

    /// Publishes the table of the present map, imports and exports, with its steps behind the barrier.
    fn publish(&mut self, mut then: Vec<Then>) {
        let Some(map) = &self.map else { return };
        let map = Arc::clone(map);
        let imports: Vec<_> = self.imports().cloned().collect();
        let exports: Vec<_> = self.exports().cloned().collect();
        debug_assert_eq!(self.owned_copies(), [], "a copy would be served before its last round (C8)");
        let table = RangeTable::new(self.me().id, Arc::clone(&map), &imports, &exports);
        let table = table.without_waiting_for(&self.takeovers.failing());
        then.extend(self.begin_freezes(&map));
        let ticket = self.parts.published.publish(Arc::new(table));
        self.do_at_once(&mut then, &ticket);
        self.event(ControlEvent::NotifyWorkers);
        self.barriers.add(ticket, then);
    }

    /// Does the steps behind the barrier at once, if an injected fault demands it.
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

    /// Runs the steps of tables that every worker has passed, in the order of publication.
    fn pass_barriers(&mut self, now: MonotonicUs) {
        while let Some((step, proof)) = self.barriers.next() {
            self.pass(now, step, proof);
        }
    }

    /// The agent learns of the last map that all workers use, once it is synced what was noted by it.
    fn report_published(&mut self, now: MonotonicUs) {
        if let Some(epoch) = self.reports.take_synced(self.kept_commit()) {
            self.agent.handle(now, AgentInput::Published(epoch));
        }
    }

    fn pass(&mut self, now: MonotonicUs, step: Then, proof: BarrierPassed) {
        match step {
            Then::NotifyAgent(epoch) => {
                self.reports.add(epoch);
                self.report_published(now);
            }
            Then::Mover(id, table) => self.pass_at_mover(id, table, proof),
            Then::Discard(range) => self.jobs.discard(self.leavings_in(range), proof),
            Then::Sweep(range) => self.jobs.sweep(range, proof),
        }
    }
}

/// What the machines of a migration are made from, or why they cannot be made.
fn spec(record: &MigrationRecord, tuning: Tuning, speaks: Speaks) -> Result<MigrationSpec, String> {
    speaks.check(record.version)?;
    let protocol = sidle_migration::protocol(&record.protocol).map_err(|error| error.to_string())?;
    // Once a node has restarted, nothing is given bit by bit any more (M33).
    let was_by_cuts = matches!(protocol.copies, Copies::BeforeCuts(_)) && !record.kept_by_source;
    let protocol = if was_by_cuts { protocol.resumed() } else { protocol };
    let spec = MigrationSpec {
        id: record.id,
        import: record.import(),
        epoch: record.epoch,
        range: record.range,
        version: record.version,
        source: record.source,
        source_life: record.source_incarnation.0,
        target: record.target,
        partitions: record.partitions.clone(),
        protocol: protocol.in_version(record.version),
        bytes: record.counters.bytes,
        policy: record.policy,
        tuning,
    };
    spec.check().map_err(|error| error.to_string())?;
    Ok(spec)
}
