//! Hostile peers: arbitrary messages of every kind, valid, out of bounds, outdated, repeated, from strangers
//! and from other incarnations. Nothing panics, all state stays within its limits and readable, and true
//! members are served.

use crate::world::{info, node_id, read_protocol};
use sidle_cluster::limits::{
    MAX_HELD, MAX_MESSAGE_BYTES, MAX_NODES, MAX_NUMBER, MAX_PARTITIONS, MAX_PATIENCE_US, MAX_REASON_BYTES,
};
use sidle_cluster::{
    AgentEvent, AgentInput, ClusterId, ControlMessage, Coordinator, CoordinatorInput, CoordinatorSays,
    Founding, Health, Heartbeat, HostPort, Incarnation, MemoryMetaStore, MetaStore, Metadata,
    MigrationRecord, MigrationState, NodeAgent, NodeInfo, NodeLoad, NodeName, NodeSays, PrepareRefusal,
    Progress, Refusal, Reply, Request, RequestKey, Settled, StartNumber, Survey, Tablet, TabletMap, Term,
    ToCoordinator, ToNode, Turn,
};
use sidle_testbed::Random;
use sidle_testbed::fixtures::{map, running};
use sidle_types::{
    MapEpoch, MigrationId, MigrationPolicy, MonotonicUs, NodeId, Position, PositionRange, ProtocolVersion,
    Speaks, TabletEpoch,
};
use std::sync::Arc;

/// How many messages each machine is sent for a seed.
const MESSAGES: u64 = 100_000;
const SEEDS: u64 = 2;
/// How often the coordinator is reopened, and how often its queues are checked.
const REOPEN_EVERY: u64 = 5_000;
const LOOK_EVERY: u64 = 500;

/// Draws messages.
struct Draw {
    random: Random,
    /// What was sent before, to be sent again.
    sent: Vec<ControlMessage>,
}

impl Draw {
    fn new(seed: u64) -> Draw {
        Draw { random: Random::new(seed), sent: Vec::new() }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    fn one_in(&mut self, bound: u64) -> bool {
        self.below(bound) == 0
    }

    /// A number, mostly small.
    fn number(&mut self) -> u64 {
        match self.below(12) {
            0 => MAX_NUMBER - self.below(2),
            1 => MAX_NUMBER + 1 + self.below(2),
            2 => u64::MAX - self.below(2),
            3 => self.below(u64::MAX),
            _ => self.below(8),
        }
    }

    fn text(&mut self) -> String {
        let bytes = match self.below(64) {
            0 => MAX_REASON_BYTES + 1,
            1 => MAX_REASON_BYTES,
            2 => 100_000,
            _ => self.below(20) as usize,
        };
        "x".repeat(bytes)
    }

    /// How long a list is.
    fn length(&mut self, most: usize) -> u64 {
        match self.below(24) {
            0 => most as u64 + 1,
            1 => most as u64,
            _ => self.below(5),
        }
    }

    fn node(&mut self) -> NodeId {
        match self.below(16) {
            0 => NodeId::from_bytes(std::array::from_fn(|_| self.below(256) as u8)),
            1 => node_id(200 + self.below(50) as u8),
            _ => node_id(1 + self.below(5) as u8),
        }
    }

    fn address(&mut self) -> HostPort {
        let host = match self.below(8) {
            0 => "h".repeat(253),
            _ => format!("10.0.0.{}", self.below(255)),
        };
        HostPort::new(&host, 1 + self.below(65_535) as u16).unwrap()
    }

    fn range(&mut self) -> PositionRange {
        let [a, b] = [self.below(u64::MAX), self.below(u64::MAX)];
        match self.below(4) {
            0 => PositionRange::ALL,
            _ => PositionRange::new(Position(a.min(b)), Position(a.max(b))).unwrap(),
        }
    }

    fn policy(&mut self) -> MigrationPolicy {
        match self.below(4) {
            0 => MigrationPolicy::Rate { bytes_per_s: self.number() },
            1 => MigrationPolicy::Deadline { ms: self.number() },
            2 => MigrationPolicy::SloP99 { us: self.number() },
            _ => MigrationPolicy::Adaptive,
        }
    }

    fn progress(&mut self) -> Progress {
        Progress {
            activated: self.one_in(2),
            records_moved: self.number(),
            bytes_moved: self.number(),
            next: (0..self.length(MAX_PARTITIONS)).map(|_| Some(Position(self.below(u64::MAX)))).collect(),
            changes: self.number(),
            changes_left: self.number(),
            collections: Default::default(),
            stalled: self.one_in(3).then(|| self.text()),
            gave_all: self.one_in(3).then_some(sidle_types::GaveAll::Load),
            settled: self.one_in(3).then_some(Settled::OwnsSome),
        }
    }

    fn survey(&mut self, of: Option<PositionRange>) -> Survey {
        let partitions = match of {
            Some(range) if self.one_in(2) => vec![range],
            _ => (0..self.length(MAX_PARTITIONS)).map(|_| self.range()).collect(),
        };
        Survey { records: self.number(), bytes: self.number(), partitions }
    }

    fn request(&mut self) -> Request {
        let name = match self.below(2) {
            0 => NodeName::Id(self.node()),
            _ => NodeName::Addr(self.address()),
        };
        let migration = MigrationId(self.number());
        match self.below(6) {
            0 => Request::StartMigration {
                range: self.range(),
                target: name,
                protocol: if self.one_in(8) { self.text() } else { "fulva".to_owned() },
                policy: self.policy(),
            },
            1 => Request::SetPolicy { migration, policy: self.policy() },
            2 => Request::Cancel { migration },
            3 => Request::Forget { node: name },
            4 => Request::AwaitEnd { migration, patience_us: self.below(2 * MAX_PATIENCE_US) },
            _ => Request::Status,
        }
    }

    /// A message from a node. `data`: the true state, to match it sometimes.
    fn node_says(&mut self, data: &Metadata) -> ToCoordinator {
        let unfinished: Vec<&MigrationRecord> = data.unfinished().collect();
        let hit = (!unfinished.is_empty() && self.one_in(2))
            .then(|| unfinished[self.below(unfinished.len() as u64) as usize]);
        let migration = hit.map_or_else(|| MigrationId(self.number()), |record| record.id);
        let from = match hit {
            Some(record) if self.one_in(2) => record.source,
            Some(record) if self.one_in(2) => record.target,
            _ => self.node(),
        };
        let incarnation = data.map.node(from).map_or(0, |node| node.incarnation.0);
        let incarnation = match self.below(8) {
            0 => self.number(),
            1 => incarnation + 1,
            _ => incarnation,
        };
        let body = match self.below(10) {
            0 => NodeSays::Join {
                client_addr: self.address(),
                bus_addr: self.address(),
                cluster: self.one_in(2).then(|| ClusterId::from_bits(u128::from(self.below(3)))),
                start: self.one_in(2).then(|| StartNumber(self.number())),
                speaks: self.speaks(),
                log_since: self.one_in(2).then(|| Incarnation(self.number())),
            },
            1 => NodeSays::Heartbeat(self.heartbeat(data)),
            2 => NodeSays::Surveyed { migration, survey: self.survey(hit.map(|record| record.range)) },
            3 => NodeSays::Prepared { migration },
            4 => NodeSays::PrepareRefused { migration, why: self.prepare_refusal() },
            5 => NodeSays::Progress { migration, progress: self.progress() },
            6 => NodeSays::Finished { migration, progress: self.progress() },
            7 => NodeSays::Broken { migration, why: self.text() },
            _ => {
                let number = self.number();
                let oldest_open = number.saturating_sub(self.below(4));
                NodeSays::Request { number, oldest_open, request: self.request() }
            }
        };
        ToCoordinator { from, incarnation: Incarnation(incarnation), body }
    }

    fn speaks(&mut self) -> Speaks {
        let lowest = ProtocolVersion(1 + self.below(5) as u16);
        Speaks { lowest, highest: ProtocolVersion(lowest.0 + self.below(3) as u16) }
    }

    fn heartbeat(&mut self, data: &Metadata) -> Heartbeat {
        let map_epoch = if self.one_in(4) { MapEpoch(self.number()) } else { data.map.epoch() };
        let holds = (0..self.length(MAX_HELD)).map(|at| MigrationId(at + self.below(2))).collect();
        let load = NodeLoad { keys: self.number(), ..NodeLoad::default() };
        let trouble = self.one_in(4).then(|| self.text());
        Heartbeat { map_epoch, load, holds, trouble, health: self.number() }
    }

    fn health(&mut self) -> Option<Health> {
        let suspected = (0..self.length(MAX_NODES)).map(|_| self.node()).collect();
        self.one_in(2).then(|| Health { coordinator: self.node(), suspected })
    }

    fn prepare_refusal(&mut self) -> PrepareRefusal {
        match self.below(3) {
            0 => PrepareRefusal::NoMemory { needed_bytes: self.number(), free_bytes: self.number() },
            1 => PrepareRefusal::SourceUnreachable { error: self.text() },
            _ => PrepareRefusal::Other { why: self.text() },
        }
    }

    fn turn(&mut self) -> Turn {
        let (by, settled_at) = (MigrationId(self.number()), MapEpoch(self.number()));
        Turn { by, requested_by: self.request_key(), settled_at }
    }

    fn request_key(&mut self) -> RequestKey {
        RequestKey { node: self.node(), incarnation: Incarnation(1), number: self.number() }
    }

    fn record(&mut self) -> MigrationRecord {
        let range = self.range();
        let states = [MigrationState::Running, MigrationState::Preparing, MigrationState::Done];
        MigrationRecord {
            id: MigrationId(self.number()),
            policy: self.policy(),
            source: self.node(),
            source_incarnation: Incarnation(1 + self.below(2)),
            target: self.node(),
            target_incarnation: Incarnation(1 + self.below(2)),
            epoch: TabletEpoch(self.number()),
            map_epoch: MapEpoch(self.number()),
            state: states[self.below(3) as usize].clone(),
            requested_by: self.request_key(),
            turn: self.one_in(4).then(|| self.turn()),
            continues: self.one_in(4).then(|| MigrationId(self.number())),
            ..running(0, range, 1, 2, 0)
        }
    }

    fn map(&mut self) -> Arc<TabletMap> {
        let nodes: Vec<NodeInfo> = (1..=5).map(|number| info(number, 1)).collect();
        let record = MigrationRecord { state: MigrationState::Running, ..self.record() };
        let owner = nodes[self.below(5) as usize].id;
        let (before, after) = PositionRange::ALL.without(record.range);
        let mut tablets: Vec<Tablet> = Vec::new();
        tablets.extend(before.map(|range| Tablet { range, owner, epoch: TabletEpoch(1) }));
        tablets.push(Tablet { range: record.range, owner: record.target, epoch: record.epoch });
        tablets.extend(after.map(|range| Tablet { range, owner, epoch: TabletEpoch(1) }));
        let epoch = MapEpoch(if self.one_in(50) { self.number() } else { self.below(1 << 40) });
        let map = TabletMap::new(epoch, nodes, tablets, vec![record]);
        let map = map.unwrap_or_else(|_| TabletMap::founded_by(info(1 + self.below(5) as u8, 1)));
        Arc::new(if self.one_in(8) { map.in_version(self.speaks().highest) } else { map })
    }

    /// A message from the coordinator to node 1.
    fn coordinator_says(&mut self) -> ToNode {
        let (migration, map_epoch) = (MigrationId(self.number()), MapEpoch(self.number()));
        let body = match self.below(14) {
            0 => CoordinatorSays::Welcome {
                cluster: ClusterId::from_bits(u128::from(self.below(2))),
                map: self.map(),
            },
            1 => CoordinatorSays::JoinRefused { why: self.text() },
            2 => CoordinatorSays::JoinLater { why: self.text() },
            3 => CoordinatorSays::JoinAgain,
            4 => CoordinatorSays::Superseded,
            5 => CoordinatorSays::Heard { map_epoch, health: self.health() },
            6 => CoordinatorSays::MapUpdate { map: self.map() },
            7 => {
                CoordinatorSays::Survey { migration, range: self.range(), partitions: self.number() as usize }
            }
            8 | 9 => CoordinatorSays::Prepare { record: Box::new(self.record()) },
            10 => CoordinatorSays::Track { record: Box::new(self.record()) },
            11 => {
                let record = self.one_in(2).then(|| Box::new(self.record()));
                CoordinatorSays::Over { migration, record, map_epoch }
            }
            12 => {
                let reply = match self.below(3) {
                    0 => Reply::Started { migration, state: MigrationState::Failed { why: self.text() } },
                    1 => Reply::Refused(Refusal::NotCommitted { error: self.text() }),
                    _ => Reply::Forgotten { node: self.node() },
                };
                CoordinatorSays::Reply { number: self.number(), reply }
            }
            _ => CoordinatorSays::Heard { map_epoch, health: self.health() },
        };
        let to = if self.one_in(20) { self.node() } else { node_id(1) };
        let start = self.one_in(8).then(|| StartNumber(if self.one_in(2) { self.number() } else { 1 }));
        ToNode {
            to,
            incarnation: Incarnation(if self.one_in(20) { self.number() } else { 1 }),
            start,
            term: Term::ONLY,
            body,
        }
    }

    /// The message as it arrives, if it does. Mostly parsed from its text, as over the bus; sometimes
    /// unparsed, as on the coordinator's own node; sometimes an earlier one instead.
    fn arrived(&mut self, message: ControlMessage) -> Option<ControlMessage> {
        if self.one_in(6) && !self.sent.is_empty() {
            let place = self.below(self.sent.len() as u64) as usize;
            return Some(self.sent[place].clone());
        }
        if self.one_in(4) {
            return Some(message);
        }
        let read = ControlMessage::from_json(&message.to_json()).ok()?;
        assert_eq!(read, message);
        let place = self.below(256) as usize;
        match self.sent.get_mut(place) {
            Some(sent) => *sent = read.clone(),
            None => self.sent.push(read.clone()),
        }
        Some(read)
    }
}

fn founding() -> Founding {
    Founding {
        cluster: ClusterId::from_bits(1),
        first: info(1, 1),
        start: StartNumber(1),
        speaks: Speaks::THIS_BUILD,
    }
}

/// The coordinator after its process died: reopened on the text of its metadata.
fn reopened(now: MonotonicUs, coordinator: Coordinator<MemoryMetaStore>) -> Coordinator<MemoryMetaStore> {
    let committed = coordinator.into_meta().committed().unwrap().clone();
    let text = serde_json::to_vec(&committed).unwrap();
    let read: Metadata = serde_json::from_slice(&text).unwrap();
    assert_eq!(read, committed);
    let mut store = MemoryMetaStore::new();
    store.commit(&read).unwrap();
    Coordinator::open(now, store, founding(), read_protocol).unwrap()
}

fn join(coordinator: &mut Coordinator<MemoryMetaStore>, now: MonotonicUs, info: NodeInfo) -> Vec<ToNode> {
    let NodeInfo { id, incarnation, client_addr, bus_addr } = info;
    let body = NodeSays::Join {
        client_addr,
        bus_addr,
        cluster: None,
        start: Some(StartNumber(1)),
        speaks: Speaks::THIS_BUILD,
        log_since: None,
    };
    coordinator.handle(now, CoordinatorInput::Message(ToCoordinator { from: id, incarnation, body }));
    std::iter::from_fn(|| coordinator.poll_transmit()).filter(|sent| sent.to == id).collect()
}

#[test]
fn a_coordinator_that_is_sent_anything_serves_its_members() {
    let mut migrations = 0;
    for seed in 0..SEEDS {
        let mut draw = Draw::new(seed);
        let mut now = MonotonicUs(1_000_000);
        let mut coordinator =
            Coordinator::open(now, MemoryMetaStore::new(), founding(), read_protocol).unwrap();
        for number in 1..=5 {
            join(&mut coordinator, now, info(number, 1));
        }
        let mut taken = 0;
        for step in 0..MESSAGES {
            now = now.plus_us(draw.below(30_000));
            if draw.one_in(10) {
                coordinator.handle(now, CoordinatorInput::Timer);
            }
            if draw.one_in(50) {
                coordinator.handle(now, CoordinatorInput::Disconnected { node: draw.node() });
            }
            let message = draw.node_says(coordinator.data());
            let Some(ControlMessage::ToCoordinator(message)) = draw.arrived(message.into()) else { continue };
            taken += 1;
            coordinator.handle(now, CoordinatorInput::Message(message));
            for sent in std::iter::from_fn(|| coordinator.poll_transmit()) {
                if step % LOOK_EVERY == 0 {
                    let sent = ControlMessage::from(sent);
                    let json = sent.to_json();
                    assert!(json.len() < MAX_MESSAGE_BYTES);
                    assert_eq!(ControlMessage::from_json(&json), Ok(sent), "what is sent can be read");
                }
            }
            while coordinator.poll_event().is_some() {}
            if step % LOOK_EVERY == 0 {
                for fill in coordinator.queues() {
                    assert!(fill.count <= fill.most, "{fill:?}");
                }
            }
            if step % REOPEN_EVERY == 0 {
                coordinator = reopened(now, coordinator);
            }
        }
        assert!(taken > MESSAGES / 3, "{taken}");
        let ran: Vec<bool> = coordinator.data().all_migrations().map(MigrationRecord::ran).collect();
        assert!(ran.contains(&true), "seed {seed}: {ran:?}");
        migrations += ran.len() as u64;
        // A true member is served.
        let me = NodeInfo {
            client_addr: "me:1".parse().unwrap(),
            bus_addr: "me:2".parse().unwrap(),
            ..info(77, 1)
        };
        let said = join(&mut coordinator, now, me.clone());
        assert!(said.iter().any(|sent| matches!(sent.body, CoordinatorSays::Welcome { .. })), "{said:?}");
        let body = NodeSays::Request { number: 1, oldest_open: 1, request: Request::Status };
        let message = ToCoordinator { from: me.id, incarnation: me.incarnation, body };
        coordinator.handle(now, CoordinatorInput::Message(message));
        let mut sent = std::iter::from_fn(|| coordinator.poll_transmit());
        assert!(sent.any(|sent| matches!(sent.body, CoordinatorSays::Reply { reply: Reply::Status(_), .. })));
    }
    // One seed remembers about 23 of them, and 10 to 37.
    assert!(migrations > 10 * SEEDS, "{migrations} migrations");
}

#[test]
fn an_agent_that_is_sent_anything_keeps_its_bounds() {
    for seed in 0..SEEDS {
        let mut draw = Draw::new(1_000 + seed);
        let mut now = MonotonicUs(1_000_000);
        let mut agent: NodeAgent =
            NodeAgent::new(now, info(1, 1), StartNumber(1), Some(ClusterId::from_bits(1)));
        agent.handle(now, AgentInput::Connected);
        let mut events = 0;
        for step in 0..MESSAGES {
            now = now.plus_us(draw.below(30_000));
            let message = draw.coordinator_says();
            if let Some(ControlMessage::ToNode(message)) = draw.arrived(message.into()) {
                agent.handle(now, AgentInput::Message(message));
            }
            match draw.below(8) {
                0 => agent.handle(now, AgentInput::Timer),
                1 => agent.handle(now, AgentInput::Request(step, draw.request())),
                2 => {
                    if let Some(target) = agent.migrations.targets.get_mut(&MigrationId(draw.below(8))) {
                        target.progressed(draw.progress());
                    }
                }
                3 => {
                    if let Some(target) = agent.migrations.targets.get_mut(&MigrationId(draw.below(8))) {
                        target.refuse(draw.prepare_refusal());
                    }
                }
                _ => {}
            }
            while let Some(event) = agent.poll_event() {
                events += 1;
                if let AgentEvent::Publish(map) = event {
                    agent.handle(now, AgentInput::Published(map.epoch()));
                }
            }
            while let Some(sent) = agent.poll_transmit() {
                let sent = ControlMessage::from(sent);
                let json = sent.to_json();
                let own_numbers = matches!(
                    &sent,
                    ControlMessage::ToCoordinator(ToCoordinator {
                        body: NodeSays::Progress { .. }
                            | NodeSays::Finished { .. }
                            | NodeSays::PrepareRefused { .. },
                        ..
                    })
                );
                // The numbers of its own node's movers are out of bounds here.
                assert!(
                    own_numbers || ControlMessage::from_json(&json) == Ok(sent),
                    "what is sent can be read"
                );
            }
            if step % LOOK_EVERY == 0 {
                for fill in agent.queues() {
                    assert!(fill.count <= fill.most, "{fill:?}");
                }
            }
        }
        assert!(events > MESSAGES / 50, "{events}");
    }
}

/// A true map names only migrations that the node was asked about before; a false one could begin any number.
#[test]
fn maps_of_ever_new_migrations_do_not_fill_an_agent() {
    let now = MonotonicUs(1_000_000);
    let mut agent: NodeAgent = NodeAgent::new(now, info(1, 1), StartNumber(1), None);
    agent.handle(now, AgentInput::Connected);
    let say = |agent: &mut NodeAgent, body| {
        let message =
            ToNode { to: node_id(1), incarnation: Incarnation(1), start: None, term: Term::ONLY, body };
        agent.handle(now, AgentInput::Message(message));
        while agent.poll_event().is_some() {}
    };
    let cluster = ClusterId::from_bits(1);
    say(&mut agent, CoordinatorSays::Welcome { cluster, map: Arc::new(TabletMap::founded_by(info(1, 1))) });
    for number in 2..3 * MAX_HELD as u64 {
        let running = running(number, PositionRange::ALL, 1, 2, 2);
        let record = MigrationRecord { map_epoch: MapEpoch(number), ..running };
        let map = map(number, 2, &[(0, 2, 2)], vec![record]);
        say(&mut agent, CoordinatorSays::MapUpdate { map: Arc::new(map) });
    }
    let held = agent.queues().into_iter().find(|fill| fill.what == "migrations held at a node").unwrap();
    assert_eq!((held.count, held.most), (MAX_HELD, MAX_HELD));
}
