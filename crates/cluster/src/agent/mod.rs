//! The node's side of the conversation with the coordinator.
//!
//! # Invariants
//! 1. Maps are published in the order of their epochs, each at most once.
//! 2. A map's prerequisites are announced before it: [`AgentEvent::StartExport`] and
//!    [`AgentEvent::StartImport`] precede the [`AgentEvent::Publish`] of the first map in which the migration
//!    runs.
//! 3. A migration's end is announced after the map that ends it: when every worker uses a map without the
//!    migration, in whatever order the messages came.
//! 4. A message for another incarnation of the node, or about a migration with one, is ignored (M9).
//! 5. Every event about a migration comes once, however often its message arrives (M10).
//! 6. A process that was not let in sends nothing but joins, and asks what became of its log. Another process
//!    may be the member of its incarnation, and the coordinator knows requests and heartbeats by node and
//!    incarnation.
//! 7. Of several coordinators the latest is believed: a message of a lower term than one that was taken is
//!    ignored ([`HighestTerm`]).
//!
//! # Realises
//! Migration steps 1, 2 and 9 at one node. An answer for the coordinator is kept, and sent as often as it is
//! asked for. Heartbeats list the migrations that the node keeps something for. The coordinator answers those
//! that are over, so a lost message leaks nothing.
//!
//! # Ownership
//! One thread, the node's control thread. Call [`NodeAgent::handle`] for every input, with
//! [`AgentInput::Timer`] once [`NodeAgent::poll_timeout`] has passed. After each call drain
//! [`NodeAgent::poll_event`], in order, and [`NodeAgent::poll_transmit`], then ask for the timeout again.
//! Without a connection to the coordinator the driver drops outgoing messages, and reports
//! [`AgentInput::Connected`] once there is one. Before the first the node asks for nothing: it may be reading
//! its durable log, and its first map says what of that is of use.

mod copies;
mod event;
mod health;
mod migrations;
mod requests;
mod source;
mod takeovers;
mod talk;
mod target;

pub use event::{AgentEvent, AgentInput, End};
pub use migrations::Migrations;
pub use source::{Source, SourceStage};
pub use target::{Target, TargetStage};

use crate::bounds::{Bounded, clipped};
use crate::limits::{MAX_EVENTS, MAX_HELD, MAX_REASON_BYTES, MAX_TRANSMIT};
use crate::timing::{HEARTBEAT_INTERVAL_US, JOIN_REFUSED_RETRY_US, JOIN_RETRY_US};
use crate::{
    ClusterId, CoordinatorSays, Heartbeat, HighestTerm, Incarnation, MigrationRecord, NodeInfo, NodeLoad,
    NodeSays, StartNumber, TabletMap, ToCoordinator, ToNode,
};
use copies::Copies;
use event::Outbox;
use health::KnownHealth;
use requests::Requests;
use sidle_types::{Fill, LogId, MapEpoch, MonotonicUs, NodeId, Speaks, fault};
use std::sync::Arc;
use takeovers::Takeovers;

/// The node agent's state machine. The module's header has its rules and the order of calls. `X`, `I`: the
/// driver's state for each migration as its source and as its target.
#[derive(Debug)]
pub struct NodeAgent<X = (), I = ()> {
    /// The node's migrations, lent to the driver: it advances them, but neither adds nor removes any. Its
    /// changes are sent to the coordinator with the next input, which is due then.
    pub migrations: Migrations<X, I>,
    start: StartNumber,
    speaks: Speaks,
    log_since: Option<Incarnation>,
    /// Before it joins, it learns what has become of this log of its own.
    asks_for: Option<LogId>,
    cluster: Option<ClusterId>,
    /// It has been connected, and joins.
    begun: bool,
    joined: bool,
    map: Option<Arc<TabletMap>>,
    /// The epoch of the map that all workers use.
    published: MapEpoch,
    load: NodeLoad,
    trouble: Option<String>,
    /// When the next join or heartbeat is due.
    next_beat: MonotonicUs,
    heard_at: Option<MonotonicUs>,
    highest_term: HighestTerm,
    health: KnownHealth,
    requests: Requests,
    copies: Copies,
    takeovers: Takeovers,
    out: Outbox,
}

impl<X, I> NodeAgent<X, I> {
    /// The agent of a node in a new incarnation. `start`: drawn at random for this process. `cluster`: the
    /// node's cluster, if it has one.
    pub fn new(
        now: MonotonicUs,
        me: NodeInfo,
        start: StartNumber,
        cluster: Option<ClusterId>,
    ) -> NodeAgent<X, I> {
        NodeAgent {
            start,
            speaks: Speaks::THIS_BUILD,
            log_since: None,
            asks_for: None,
            cluster,
            begun: false,
            joined: false,
            map: None,
            published: MapEpoch(0),
            load: NodeLoad::default(),
            trouble: None,
            next_beat: now,
            heard_at: None,
            highest_term: HighestTerm::default(),
            health: KnownHealth::new(now),
            migrations: Migrations::default(),
            requests: Requests::default(),
            copies: Copies::default(),
            takeovers: Takeovers::default(),
            out: Outbox::new(me),
        }
    }

    /// The versions that its program speaks.
    pub const fn speaks(&self) -> Speaks {
        self.speaks
    }

    /// Makes it the agent of a program that speaks these versions, not those of this build.
    pub fn set_speaks(&mut self, speaks: Speaks) {
        self.speaks = speaks;
    }

    /// Sets since which incarnation the node's durable log has everything that it acknowledged, if it has
    /// one. Call it before the node joins.
    pub fn set_log_since(&mut self, log_since: Option<Incarnation>) {
        self.log_since = log_since;
    }

    /// Has it ask whether others have taken over what this log had, and not join. `None`: it asks no more,
    /// and joins.
    pub fn ask_for_log(&mut self, now: MonotonicUs, log: Option<LogId>) {
        self.asks_for = log;
        self.next_beat = now;
    }

    /// Handles an input.
    pub fn handle(&mut self, now: MonotonicUs, input: AgentInput) {
        match input {
            AgentInput::Connected => {
                self.begun = true;
                self.next_beat = now;
                self.migrations.repeat();
                self.requests.send_anew();
                self.copies.send_anew();
                self.takeovers.send_anew();
            }
            AgentInput::Message(message) => self.message(now, message),
            AgentInput::Timer => {}
            AgentInput::Published(epoch) => self.published(now, epoch),
            AgentInput::Load(load) => self.load = load,
            AgentInput::Trouble(trouble) => {
                self.trouble = trouble.map(|trouble| clipped(trouble, MAX_REASON_BYTES));
            }
            AgentInput::Tried(nodes, is_reached) => self.health.tried(nodes, is_reached),
            AgentInput::Request(ticket, request) => self.requests.open(now, ticket, request, &mut self.out),
            AgentInput::Copies(copies) => self.copies.ask(copies),
            AgentInput::TookOver(range, epoch) => self.takeovers.done(range, epoch),
            AgentInput::CannotTakeOver(range, epoch, why) => {
                // Once: whoever tries again reports it again.
                let why = clipped(why, MAX_REASON_BYTES);
                self.out.send(NodeSays::CannotTakeOver { range, epoch, why });
            }
        }
        self.beat(now);
        if self.joined {
            self.migrations.report(now, &mut self.out);
        }
        self.requests.give_up_late(now, &mut self.out);
        if self.joined || fault!(AsksBeforeItJoined) {
            self.requests.send_due(now, &mut self.out);
        }
        if self.has_log_copies() {
            self.copies.send_due(now, &mut self.out);
            self.takeovers.send_due(now, &mut self.out);
        }
        self.health.notice(now, self.heard_at, &mut self.out);
    }

    /// The next message to the coordinator.
    pub fn poll_transmit(&mut self) -> Option<ToCoordinator> {
        self.out.transmit.pop_front()
    }

    /// The next thing to do.
    pub fn poll_event(&mut self) -> Option<AgentEvent> {
        let event = self.out.events.pop_front();
        if event.is_none() {
            self.migrations.drop_ended();
        }
        event
    }

    /// When to call [`NodeAgent::handle`] with [`AgentInput::Timer`] if nothing else happens.
    pub fn poll_timeout(&self) -> Option<MonotonicUs> {
        let reports = self.migrations.report_due().filter(|_| self.joined);
        let beat = Some(self.next_beat).filter(|_| self.begun);
        let copies = self.copies.due().filter(|_| self.has_log_copies());
        let takeovers = self.takeovers.due().filter(|_| self.has_log_copies());
        [reports, self.requests.due(), copies, takeovers, beat].into_iter().flatten().min()
    }

    /// The node.
    pub const fn me(&self) -> &NodeInfo {
        &self.out.me
    }

    /// The cluster that the node belongs to.
    pub const fn cluster(&self) -> Option<ClusterId> {
        self.cluster
    }

    /// The map that was given out to be published last.
    pub const fn map(&self) -> Option<&Arc<TabletMap>> {
        self.map.as_ref()
    }

    /// Whether the coordinator has let this incarnation of the node in.
    pub const fn is_member(&self) -> bool {
        self.joined
    }

    /// The node that runs the coordinator, if known.
    pub const fn coordinator(&self) -> Option<NodeId> {
        self.health.coordinator
    }

    /// Whether another node coordinates should this coordinator die: only then it has a term.
    pub const fn others_may_coordinate(&self) -> bool {
        !self.highest_term.get().is_only()
    }

    /// Sets the node that ran the coordinator in an earlier incarnation of this one.
    pub fn remember_coordinator(&mut self, coordinator: NodeId) {
        self.health.coordinator = Some(coordinator);
    }

    /// What is in hand, in words, each with its count; empty when no migration of this node and no request is
    /// under way.
    pub fn in_hand(&self) -> impl Iterator<Item = (&'static str, usize)> {
        [
            ("migrations", self.migrations.len()),
            ("requests not answered", self.requests.len()),
            ("takeovers not noted", self.takeovers.len()),
            ("messages not sent", self.out.transmit.len()),
            ("agent's events not taken", self.out.events.len()),
        ]
        .into_iter()
        .filter(|(_, count)| *count > 0)
    }

    /// How full its queues are.
    pub fn queues(&self) -> [Fill; 6] {
        let [short, waits] = self.requests.queues();
        [
            short,
            waits,
            Fill::new("migrations held at a node", self.migrations.held().len(), MAX_HELD),
            Fill::new("messages of a node to the coordinator", self.out.transmit.len(), MAX_TRANSMIT),
            Fill::new("events of a node's agent", self.out.events.len(), MAX_EVENTS),
            Fill::new("remembered ends of a node's migrations", self.migrations.remembered(), crate::HISTORY),
        ]
    }

    /// When the coordinator's last message arrived.
    pub const fn last_heard(&self) -> Option<MonotonicUs> {
        self.heard_at
    }

    fn message(&mut self, now: MonotonicUs, message: ToNode) {
        let is_mine = (message.to, message.incarnation) == self.out.identity()
            && message.start.is_none_or(|start| start == self.start);
        // A message of a coordinator on this node arrives unparsed, so its bounds are checked here.
        if !is_mine || message.check_bounds().is_err() || !self.highest_term.takes(message.term) {
            return;
        }
        self.heard_at = Some(now);
        match message.body {
            CoordinatorSays::Welcome { cluster, map } => {
                if self.cluster.is_none_or(|own| own == cluster) && self.accepts(&map) {
                    self.welcome(now, cluster, map);
                }
            }
            CoordinatorSays::JoinRefused { why } => {
                if !self.joined {
                    self.next_beat = now.plus_us(JOIN_REFUSED_RETRY_US);
                    self.out.event(AgentEvent::JoinRefused(why));
                }
            }
            CoordinatorSays::JoinLater { why } => {
                if !self.joined {
                    self.out.event(AgentEvent::JoinRefused(why));
                }
            }
            CoordinatorSays::JoinAgain => {
                if std::mem::take(&mut self.joined) {
                    self.next_beat = now;
                    self.requests.send_anew();
                    self.copies.send_anew();
                }
            }
            CoordinatorSays::Superseded => self.out.event(AgentEvent::Superseded),
            CoordinatorSays::LogFate { log, taken_over } => {
                if self.asks_for == Some(log) && !self.joined {
                    // The driver knows whether it is to join then.
                    self.next_beat = now.plus_us(JOIN_REFUSED_RETRY_US);
                    self.out.event(AgentEvent::LogFate(log, taken_over));
                }
            }
            CoordinatorSays::Heard { health, .. } => {
                health.into_iter().for_each(|health| self.health.heard(health));
            }
            CoordinatorSays::MapUpdate { map } => {
                if self.joined && self.accepts(&map) {
                    self.adopt(now, map);
                }
            }
            CoordinatorSays::Survey { migration, range, partitions } => {
                self.migrations.asked_to_survey(migration, range, partitions, &mut self.out);
            }
            CoordinatorSays::Prepare { record } => {
                self.migrations.asked_to_prepare(now, *record, &mut self.out);
            }
            CoordinatorSays::Track { record } => self.migrations.asked_to_track(*record, &mut self.out),
            CoordinatorSays::Over { migration, record, map_epoch } => {
                self.migrations.over(migration, record.map(|record| *record), map_epoch);
                self.migrations.announce_ends(self.published, &mut self.out);
            }
            CoordinatorSays::Reply { number, reply } => self.requests.replied(number, reply, &mut self.out),
            CoordinatorSays::Copies { copies } => self.copies.answered(copies, &mut self.out),
        }
    }

    /// Whether the program speaks the version of the map's cluster. If not, the map is refused: its
    /// coordinator should not have let the node in.
    fn accepts(&mut self, map: &TabletMap) -> bool {
        let spoken = self.speaks.check(map.version());
        spoken.map_err(|why| self.out.event(AgentEvent::JoinRefused(why))).is_ok()
    }

    fn welcome(&mut self, now: MonotonicUs, cluster: ClusterId, map: Arc<TabletMap>) {
        if !self.joined {
            self.joined = true;
            self.cluster = Some(cluster);
            self.next_beat = now;
            self.out.event(AgentEvent::Joined(cluster));
        }
        self.adopt(now, map);
    }

    /// Publishes a map that is newer than the present one (invariants 1 to 3).
    fn adopt(&mut self, now: MonotonicUs, map: Arc<TabletMap>) {
        if self.map_epoch() >= map.epoch() && !fault!(OlderMapAdopted) {
            return;
        }
        // A true map has no unknown one: the node was asked before it ran.
        let is_unknown =
            |record: &&MigrationRecord| self.is_mine(record) && !self.migrations.holds(record.id);
        let unknown = map.migrations().iter().filter(is_unknown).count();
        if self.migrations.held().len() + unknown > MAX_HELD {
            return;
        }
        for record in map.migrations() {
            let is_taken_over = map.takeover_at(record.range.first()).is_some();
            self.migrations.meet_running(now, record, is_taken_over, &mut self.out);
        }
        self.takeovers.noted(&map);
        self.map = Some(Arc::clone(&map));
        self.out.event(AgentEvent::Publish(map));
    }

    fn published(&mut self, now: MonotonicUs, epoch: MapEpoch) {
        if self.published < epoch && epoch <= self.map_epoch() {
            self.published = epoch;
            self.migrations.announce_ends(epoch, &mut self.out);
            // The coordinator repeats the map until the node reports it in use.
            self.next_beat = now;
        }
    }

    /// Whether the coordinator can be asked about copies of the node's log.
    fn has_log_copies(&self) -> bool {
        self.joined && self.map.as_ref().is_some_and(|map| map.version().has_log_copies())
    }

    /// Whether this incarnation of the node takes part in the migration.
    fn is_mine(&self, record: &MigrationRecord) -> bool {
        let me = self.out.identity();
        me == (record.source, record.source_incarnation) || me == (record.target, record.target_incarnation)
    }

    fn map_epoch(&self) -> MapEpoch {
        self.map.as_ref().map_or(MapEpoch(0), |map| map.epoch())
    }

    /// Sends a join or a heartbeat if one is due.
    fn beat(&mut self, now: MonotonicUs) {
        if now < self.next_beat || !self.begun {
            return;
        }
        if self.joined {
            self.next_beat = now.plus_us(HEARTBEAT_INTERVAL_US);
            let holds = self.migrations.held().into_iter().take(MAX_HELD).collect();
            let (health, trouble) = (self.health.fingerprint(), self.trouble.clone());
            let (map_epoch, load) = (self.published, self.load);
            self.out.send(NodeSays::Heartbeat(Heartbeat { map_epoch, load, holds, trouble, health }));
        } else if let Some(log) = self.asks_for {
            self.next_beat = now.plus_us(JOIN_RETRY_US);
            self.out.send(NodeSays::AsksForLog { log });
        } else {
            self.next_beat = now.plus_us(JOIN_RETRY_US);
            let NodeInfo { client_addr, bus_addr, .. } = self.out.me.clone();
            let (start, speaks, log_since) = (Some(self.start), self.speaks, self.log_since);
            let cluster = self.cluster;
            self.out.send(NodeSays::Join { client_addr, bus_addr, cluster, start, speaks, log_since });
        }
    }
}
