//! The node's side of the conversation with the coordinator.
//!
//! # Invariants
//! 1. Maps are published in the order of their epochs, each at most once.
//! 2. What a map needs is announced before the map: [`AgentEvent::StartExport`] and
//!    [`AgentEvent::StartImport`] come before the [`AgentEvent::Publish`] of the first map in which the
//!    migration runs.
//! 3. What ends with a map is announced after it: a migration's end comes when every worker uses a map
//!    without it, whatever order the messages came in.
//! 4. Nothing that was meant for another incarnation of the node, or of a migration with another incarnation
//!    of it, is acted on (M9).
//! 5. Every event about a migration comes once, however often its message does (M10).
//!
//! # Realises
//! Migration steps 1, 2 and 9 as one node sees them. An answer that the coordinator needs is kept, and given
//! as often as it is asked for. Heartbeats list the migrations that the node keeps something for, and the
//! coordinator answers those that are over, so that no lost message leaves anything behind.
//!
//! # Ownership
//! One thread, the node's control thread. Call [`NodeAgent::handle`] for every input, with
//! [`AgentInput::Timer`] once [`NodeAgent::poll_timeout`] has passed; after each call take from
//! [`NodeAgent::poll_event`], in order, and [`NodeAgent::poll_transmit`] until both are empty, then ask for
//! the timeout anew. While there is no connection to the coordinator the driver drops what is to be sent, and
//! says [`AgentInput::Connected`] once there is one.

mod health;
mod migrations;
mod requests;

use crate::bounds::{Bounded, clipped};
use crate::limits::{
    MAX_EVENTS, MAX_HELD, MAX_OPEN_REQUESTS, MAX_OPEN_WAITS, MAX_REASON_BYTES, MAX_TRANSMIT,
};
use crate::timing::{HEARTBEAT_INTERVAL_US, JOIN_REFUSED_RETRY_US, JOIN_RETRY_US};
use crate::{
    ClusterId, CoordinatorSays, Heartbeat, HostPort, MigrationRecord, NodeInfo, NodeLoad, NodeSays,
    PrepareRefusal, Progress, PutBack, Reply, Request, StartNumber, Survey, TabletMap, ToCoordinator, ToNode,
};
use health::KnownHealth;
use migrations::{End, Held};
use requests::OpenRequest;
use sidle_types::{Fill, MapEpoch, MigrationId, MigrationPolicy, MonotonicUs, NodeId, PositionRange};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// What happens to a node agent.
#[derive(Clone, Debug)]
pub enum AgentInput {
    /// The connection to the coordinator is made, anew or for the first time.
    Connected,
    /// The coordinator said something.
    Message(ToNode),
    /// The time of [`NodeAgent::poll_timeout`] has come.
    Timer,
    /// Every worker uses the map of this epoch and has passed a loop boundary since: what an earlier map let
    /// it acknowledge is acknowledged. Answers [`AgentEvent::Publish`].
    Published {
        /// The map's epoch.
        epoch: MapEpoch,
    },
    /// How full the node is; sent along with the next heartbeat.
    Load(NodeLoad),
    /// What is wrong with the node's data directory, or that nothing is any more; sent along with every
    /// heartbeat.
    Trouble(Option<String>),
    /// A client asks the coordinator for something. Answered by [`AgentEvent::Reply`] with the same ticket.
    Request {
        /// The driver's name for the request.
        ticket: u64,
        /// The request.
        request: Request,
    },
    /// Answers [`AgentEvent::Survey`].
    Surveyed {
        /// The migration.
        migration: MigrationId,
        /// What was found.
        survey: Survey,
    },
    /// Answers [`AgentEvent::Prepare`]: there is room, and the source is connected.
    Prepared {
        /// The migration.
        migration: MigrationId,
    },
    /// Answers [`AgentEvent::Prepare`]: it cannot be, and nothing is kept for it.
    PrepareRefused {
        /// The migration.
        migration: MigrationId,
        /// Why not.
        why: PrepareRefusal,
    },
    /// How far an import has come, or a copy made before it, while it is prepared. May be said as often as
    /// the driver likes.
    Progress {
        /// The migration.
        migration: MigrationId,
        /// How far.
        progress: Progress,
    },
    /// An import has everything.
    Finished {
        /// The migration.
        migration: MigrationId,
        /// The final figures.
        progress: Progress,
    },
    /// An import cannot go on, ever: what has not arrived is given up. A hope to go on is a stall in the
    /// progress.
    Broken {
        /// The migration.
        migration: MigrationId,
        /// Why.
        why: String,
    },
}

/// What the driver is to do, in the order given.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentEvent {
    /// The node is a member. Comes again after a repeated join; [`AgentEvent::Publish`] follows if the map is
    /// new. The driver keeps the cluster's id with the node's identity.
    Joined {
        /// The cluster.
        cluster: ClusterId,
    },
    /// The coordinator does not let the node in, or not yet; it will be asked again.
    JoinRefused {
        /// Why not, and what to do.
        why: String,
    },
    /// As the source: count the range and cut it, then answer with [`AgentInput::Surveyed`].
    Survey {
        /// The migration.
        migration: MigrationId,
        /// The range.
        range: PositionRange,
        /// Into how many parts at most.
        partitions: usize,
    },
    /// As the target: make room and connect to the source, then answer with [`AgentInput::Prepared`] or
    /// [`AgentInput::PrepareRefused`]. Where the protocol copies before the freeze, the copy comes before
    /// that answer.
    ///
    /// Answer `Prepared` only when the store holds nothing in the range: whatever an earlier
    /// [`AgentEvent::ReleaseExport`] of it still has to discard would be taken for newer than what arrives
    /// (M5).
    Prepare {
        /// The migration, with its partitions.
        record: MigrationRecord,
        /// Where the source is reached.
        source_bus_addr: HostPort,
    },
    /// As the source: serve the range on, mark what changes in it, and let the target copy it. Ended by
    /// [`AgentEvent::StopTracking`], or by [`AgentEvent::StartExport`] if the range is given away.
    Track {
        /// The migration, with its partitions.
        record: MigrationRecord,
    },
    /// As the source: the range is copied no more; what was kept for that goes.
    StopTracking {
        /// The migration.
        migration: MigrationId,
    },
    /// A migration that this node takes part in is to press so hard from now on.
    Policy {
        /// The migration.
        migration: MigrationId,
        /// From now on.
        policy: MigrationPolicy,
    },
    /// As the target: forget what was made ready, a copy included; it is not needed.
    AbandonPrepared {
        /// The migration.
        migration: MigrationId,
        /// Why.
        why: String,
    },
    /// As the source: the next map gives the range away; be ready to freeze and serve it to the target.
    StartExport {
        /// The migration, which runs.
        record: MigrationRecord,
    },
    /// As the target: the next map gives the range to this node; be ready to take it.
    StartImport {
        /// The migration, which runs.
        record: MigrationRecord,
    },
    /// Publish this map to the workers, and answer with [`AgentInput::Published`] when all of them use it.
    ///
    /// The tablets alone do not say what this node serves: a range of its own with a running migration that
    /// was not announced by [`AgentEvent::StartImport`] was on its way to an earlier incarnation of the node.
    /// Its source may not know yet that it is to freeze the range, so nothing of it may be served until the
    /// migration is over (M1).
    Publish {
        /// The map.
        map: Arc<TabletMap>,
    },
    /// As the source: the migration is over and nobody needs the range's records any more: give their memory
    /// back. May come without a `StartExport`, when the node was cut off all the while.
    ReleaseExport {
        /// The migration.
        migration: MigrationId,
        /// What to discard.
        range: PositionRange,
    },
    /// As the target: everything has arrived and that is committed; free the tombstones.
    FinishImport {
        /// The migration.
        migration: MigrationId,
    },
    /// As the target: what has not arrived never will, and is absent from now on. Serve the range, activated
    /// or not; the source can answer for nothing in it any more.
    DiscardRest {
        /// The migration.
        migration: MigrationId,
        /// Why.
        why: String,
    },
    /// These members are suspected from now on, and no others: the coordinator has not heard of them for too
    /// long, or this node not of the one that runs the coordinator.
    Suspected {
        /// All of them.
        nodes: BTreeSet<NodeId>,
    },
    /// Another process has joined with this node's identity, later: serve nothing any more and exit.
    Superseded,
    /// Answers a request.
    Reply {
        /// The driver's name for the request.
        ticket: u64,
        /// The answer.
        reply: Reply,
    },
}

/// The node agent's state machine. See the module's header for its rules and the order of calls.
#[derive(Debug)]
pub struct NodeAgent {
    me: NodeInfo,
    start: StartNumber,
    bugs: PutBack,
    cluster: Option<ClusterId>,
    joined: bool,
    map: Option<Arc<TabletMap>>,
    /// The epoch of the map that all workers use.
    published: MapEpoch,
    load: NodeLoad,
    trouble: Option<String>,
    /// When the next join or heartbeat is due.
    next_beat: MonotonicUs,
    heard_at: Option<MonotonicUs>,
    health: KnownHealth,
    held: BTreeMap<MigrationId, Held>,
    /// How hard each of those may press, as was heard last.
    policies: BTreeMap<MigrationId, MigrationPolicy>,
    /// Ends that wait for a map without the migration.
    ends: BTreeMap<MigrationId, End>,
    /// The last migrations that ended here, so that a late message does not begin them again.
    ended: VecDeque<MigrationId>,
    requests: BTreeMap<u64, OpenRequest>,
    next_request: u64,
    transmit: VecDeque<ToCoordinator>,
    events: VecDeque<AgentEvent>,
}

impl NodeAgent {
    /// The agent of a node in a new incarnation. `start`: drawn at random for this process. `cluster`: the
    /// one that the node belongs to, if it has been in one.
    pub fn new(now: MonotonicUs, me: NodeInfo, start: StartNumber, cluster: Option<ClusterId>) -> NodeAgent {
        NodeAgent {
            me,
            start,
            bugs: PutBack::default(),
            cluster,
            joined: false,
            map: None,
            published: MapEpoch(0),
            load: NodeLoad::default(),
            trouble: None,
            next_beat: now,
            heard_at: None,
            health: KnownHealth::new(now),
            held: BTreeMap::new(),
            policies: BTreeMap::new(),
            ends: BTreeMap::new(),
            ended: VecDeque::new(),
            requests: BTreeMap::new(),
            next_request: 1,
            transmit: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// Puts known faults back.
    #[cfg(feature = "bug-switches")]
    pub fn put_back(&mut self, bugs: crate::Bugs) {
        self.bugs = bugs.into();
    }

    /// Takes in what happened.
    pub fn handle(&mut self, now: MonotonicUs, input: AgentInput) {
        match input {
            AgentInput::Connected => {
                self.next_beat = now;
                self.repeat_everything(now);
            }
            AgentInput::Message(message) => self.message(now, message),
            AgentInput::Timer => {}
            AgentInput::Published { epoch } => self.published(now, epoch),
            AgentInput::Load(load) => self.load = load,
            AgentInput::Trouble(trouble) => {
                self.trouble = trouble.map(|trouble| clipped(trouble, MAX_REASON_BYTES));
            }
            AgentInput::Request { ticket, request } => self.open_request(now, ticket, request),
            AgentInput::Surveyed { migration, survey } => self.surveyed(migration, survey),
            AgentInput::Prepared { migration } => self.prepared(migration, Ok(())),
            AgentInput::PrepareRefused { migration, why } => self.prepared(migration, Err(why.clipped())),
            AgentInput::Progress { migration, progress } => self.progress(now, migration, progress.clipped()),
            AgentInput::Finished { migration, progress } => self.finished(now, migration, progress.clipped()),
            AgentInput::Broken { migration, why } => {
                self.broken(now, migration, clipped(why, MAX_REASON_BYTES));
            }
        }
        self.beat(now);
        if self.joined {
            self.report_imports(now);
        }
        self.repeat_requests(now);
        self.notice_health(now);
    }

    /// The next message to the coordinator.
    pub fn poll_transmit(&mut self) -> Option<ToCoordinator> {
        self.transmit.pop_front()
    }

    /// The next thing to do.
    pub fn poll_event(&mut self) -> Option<AgentEvent> {
        self.events.pop_front()
    }

    /// When to call [`NodeAgent::handle`] with [`AgentInput::Timer`] if nothing else happens.
    pub fn poll_timeout(&self) -> Option<MonotonicUs> {
        let imports = self.held.values().filter_map(Held::report_due).filter(|_| self.joined);
        let requests = self.requests.values().map(OpenRequest::due);
        imports.chain(requests).chain([self.next_beat]).min()
    }

    /// The node.
    pub const fn me(&self) -> &NodeInfo {
        &self.me
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

    /// What is in hand, in words, each with how many of it there are: nothing when no migration of this node
    /// and no request is under way.
    pub fn in_hand(&self) -> impl Iterator<Item = (&'static str, usize)> {
        [
            ("migrations held", self.held.len()),
            ("ends not announced", self.ends.len()),
            ("requests not answered", self.requests.len()),
            ("messages not sent", self.transmit.len()),
            ("agent's events not taken", self.events.len()),
        ]
        .into_iter()
        .filter(|(_, count)| *count > 0)
    }

    /// How full its queues are.
    pub fn queues(&self) -> [Fill; 6] {
        let waits = self.requests.values().filter(|open| open.waits()).count();
        let short = self.requests.len() - waits;
        [
            Fill::new("requests of a node to the coordinator", short, MAX_OPEN_REQUESTS),
            Fill::new("requests of a node that wait for a migration's end", waits, MAX_OPEN_WAITS),
            Fill::new("migrations held at a node", self.held.len(), MAX_HELD),
            Fill::new("messages of a node to the coordinator", self.transmit.len(), MAX_TRANSMIT),
            Fill::new("events of a node's agent", self.events.len(), MAX_EVENTS),
            Fill::new("remembered ends of a node's migrations", self.ended.len(), crate::HISTORY),
        ]
    }

    /// When the coordinator was heard of last.
    pub const fn last_heard(&self) -> Option<MonotonicUs> {
        self.heard_at
    }

    fn message(&mut self, now: MonotonicUs, message: ToNode) {
        let is_mine = message.to == self.me.id
            && message.incarnation == self.me.incarnation
            && message.start.is_none_or(|start| start == self.start);
        // What a coordinator on this node says comes without having been read from a text.
        if !is_mine || message.check_bounds().is_err() {
            return;
        }
        self.heard_at = Some(now);
        match message.body {
            CoordinatorSays::Welcome { cluster, map } => {
                if self.cluster.is_none_or(|own| own == cluster) {
                    self.welcome(now, cluster, map);
                }
            }
            CoordinatorSays::JoinRefused { why } => {
                if !self.joined {
                    self.next_beat = now.plus_us(JOIN_REFUSED_RETRY_US);
                    self.event(AgentEvent::JoinRefused { why });
                }
            }
            CoordinatorSays::JoinLater { why } => {
                if !self.joined {
                    self.event(AgentEvent::JoinRefused { why });
                }
            }
            CoordinatorSays::JoinAgain => {
                if std::mem::take(&mut self.joined) {
                    self.next_beat = now;
                }
            }
            CoordinatorSays::Superseded => self.event(AgentEvent::Superseded),
            CoordinatorSays::Heard { health, .. } => {
                health.into_iter().for_each(|health| self.heard_health(health))
            }
            CoordinatorSays::MapUpdate { map } => {
                if self.joined {
                    self.adopt(now, map);
                }
            }
            CoordinatorSays::Survey { migration, range, partitions } => {
                self.asked_to_survey(migration, range, partitions);
            }
            CoordinatorSays::Prepare { record, source_bus_addr } => {
                self.asked_to_prepare(*record, source_bus_addr);
            }
            CoordinatorSays::Track { record } => self.asked_to_track(*record),
            CoordinatorSays::Over { migration, record, map_epoch } => {
                self.over(migration, record.map(|record| *record), map_epoch);
            }
            CoordinatorSays::Reply { number, reply } => self.replied(number, reply),
        }
    }

    fn welcome(&mut self, now: MonotonicUs, cluster: ClusterId, map: Arc<TabletMap>) {
        if !self.joined {
            self.joined = true;
            self.cluster = Some(cluster);
            self.next_beat = now;
            self.event(AgentEvent::Joined { cluster });
        }
        self.adopt(now, map);
    }

    /// Publishes a map that is newer than the present one (invariants 1 to 3).
    fn adopt(&mut self, now: MonotonicUs, map: Arc<TabletMap>) {
        if self.map_epoch() >= map.epoch() && !self.bugs.older_map_adopted {
            return;
        }
        // Of a true map every one is known: the node was asked before it ran.
        let unknown = map.migrations().iter().filter(|record| self.is_mine(record) && !self.holds(record.id));
        if self.held.len() + unknown.count() > MAX_HELD {
            return;
        }
        for record in map.migrations() {
            self.meet_running(now, record);
        }
        self.map = Some(Arc::clone(&map));
        self.event(AgentEvent::Publish { map });
    }

    fn published(&mut self, now: MonotonicUs, epoch: MapEpoch) {
        if self.published < epoch && epoch <= self.map_epoch() {
            self.published = epoch;
            self.announce_ends();
            // The coordinator repeats the map until it hears that it is in use.
            self.next_beat = now;
        }
    }

    fn map_epoch(&self) -> MapEpoch {
        self.map.as_ref().map_or(MapEpoch(0), |map| map.epoch())
    }

    /// Joins or shows a heartbeat, when it is time to.
    fn beat(&mut self, now: MonotonicUs) {
        if now < self.next_beat {
            return;
        }
        if self.joined {
            self.next_beat = now.plus_us(HEARTBEAT_INTERVAL_US);
            let holds = self.held.keys().copied().take(MAX_HELD).collect();
            let (health, trouble) = (self.health.fingerprint(), self.trouble.clone());
            let (map_epoch, load) = (self.published, self.load);
            self.send(NodeSays::Heartbeat(Heartbeat { map_epoch, load, holds, trouble, health }));
        } else {
            self.next_beat = now.plus_us(JOIN_RETRY_US);
            let NodeInfo { client_addr, bus_addr, .. } = self.me.clone();
            let start = Some(self.start);
            self.send(NodeSays::Join { client_addr, bus_addr, cluster: self.cluster, start });
        }
    }

    fn send(&mut self, body: NodeSays) {
        if self.transmit.len() == MAX_TRANSMIT {
            self.transmit.pop_front();
        }
        self.transmit.push_back(ToCoordinator { from: self.me.id, incarnation: self.me.incarnation, body });
    }

    fn event(&mut self, event: AgentEvent) {
        assert!(self.events.len() < MAX_EVENTS, "the driver does not take the agent's events");
        self.events.push_back(event);
    }
}
