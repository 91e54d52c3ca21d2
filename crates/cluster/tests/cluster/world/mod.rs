//! A cluster on virtual time: a coordinator, nodes, links that lose, double and delay, and a small model of
//! data that knows after every step what each node would acknowledge.
//!
//! The positions are cut into [`CHUNKS`] equal chunks with one record each. At every step the world checks
//! that
//! - at most one node acknowledges writes of a chunk (M1), and no ownership epoch ever names two owners of a
//!   chunk;
//! - a read answers the last value acknowledged, or "absent" if a node that held it has restarted since:
//!   never an older value;
//! - on links without loss or delay, no source redirects clients to a target that would redirect them back.

mod node;
mod role;

use node::SimNode;
use sidle_cluster::{
    ClusterId, CommitFailure, Coordinator, CoordinatorEvent, CoordinatorInput, Founding, Incarnation,
    MemoryMetaStore, Metadata, MigrationState, MigrationStatus, NodeInfo, NodeName, ProtocolOutline, Reply,
    Request, StartNumber, StatusReport, TabletMap, ToCoordinator, ToNode,
};
pub(crate) use sidle_testbed::fixtures::node_id;
use sidle_testbed::fixtures::node_info;
use sidle_testbed::{Quality, Random, TimeQueue, Way};
use sidle_types::{
    MigrationId, MigrationPolicy, MonotonicUs, NodeId, Position, PositionRange, ProtocolVersion, Speaks,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Into how many chunks the positions are cut.
pub(crate) const CHUNKS: u64 = 16;

/// Positions per chunk.
const CHUNK: u64 = 1 << 60;

/// The intervals at which every chunk is written and read, while something moves and while nothing does.
const TRAFFIC_INTERVALS_US: (u64, u64) = (1_000, 50_000);

/// A protocol that copies before the freeze.
pub(crate) const AHEAD: &str = "ahead";

/// The chunks `first..=last` as positions.
pub(crate) fn chunks(first: u64, last: u64) -> PositionRange {
    PositionRange::new(Position(first * CHUNK), Position(last * CHUNK + (CHUNK - 1))).unwrap()
}

/// The chunk of a position.
pub(crate) fn chunk_of(position: Position) -> u64 {
    position.0 / CHUNK
}

/// Links that lose nothing.
pub(crate) const GOOD: Quality = Quality { is_ordered: false, ..Quality::sound(50, 100) };
/// Links that lose, double and delay messages.
pub(crate) const BAD: Quality =
    Quality { lost_permille: 200, doubled_permille: 300, ..GOOD.within(50, 60_000) };

#[derive(Clone)]
enum InFlight {
    ToCoordinator(ToCoordinator),
    ToNode(ToNode),
}

pub(crate) struct World {
    pub(crate) now: MonotonicUs,
    random: Random,
    pub(crate) links: Quality,
    in_flight: TimeQueue<InFlight>,
    coordinator: Option<Coordinator<MemoryMetaStore>>,
    /// Why nodes were not taken over by themselves, as the coordinator's log has it.
    pub(crate) not_taken_over: Vec<(NodeId, String)>,
    disk: Option<MemoryMetaStore>,
    pub(crate) nodes: Vec<SimNode>,
    next_traffic: MonotonicUs,
    owners: BTreeMap<(u64, u64), NodeId>,
    /// The maps whose owners were checked.
    seen: Vec<Arc<TabletMap>>,
    /// The last value acknowledged for each chunk.
    truth: BTreeMap<u64, u64>,
    next_value: u64,
    next_ticket: u64,
    pub(crate) replies: BTreeMap<u64, Reply>,
    /// How many events have occurred.
    pub(crate) steps: u64,
    /// Reads answered with a value, and with "absent" after a loss.
    pub(crate) reads: (u64, u64),
    /// Whether every target has to use the map of its migration before the source does.
    pub(crate) targets_come_first: bool,
}

pub(crate) fn info(number: u8, incarnation: u64) -> NodeInfo {
    NodeInfo { incarnation: Incarnation(incarnation), ..node_info(number) }
}

/// The number that a node's process drew for an incarnation.
pub(crate) fn start_of(incarnation: u64) -> StartNumber {
    StartNumber(100 + incarnation)
}

impl World {
    /// A cluster of `nodes` nodes, 1 to `nodes`, all joined; node 1 owns everything.
    pub(crate) fn new(seed: u64, nodes: u8) -> World {
        World::of_builds(seed, &vec![Speaks::THIS_BUILD; usize::from(nodes)])
    }

    /// The same, of nodes that have durable logs.
    pub(crate) fn with_logs(seed: u64, nodes: u8) -> World {
        World::begin(seed, &vec![Speaks::THIS_BUILD; usize::from(nodes)], true)
    }

    /// The same, of nodes whose programs speak these versions.
    pub(crate) fn of_builds(seed: u64, builds: &[Speaks]) -> World {
        World::begin(seed, builds, false)
    }

    fn begin(seed: u64, builds: &[Speaks], keeps_log: bool) -> World {
        let mut world = World {
            now: MonotonicUs(1_000_000),
            random: Random::new(seed),
            links: GOOD,
            in_flight: TimeQueue::default(),
            coordinator: None,
            not_taken_over: Vec::new(),
            disk: Some(MemoryMetaStore::new()),
            nodes: (1..).zip(builds).map(|(number, &speaks)| SimNode::new(number, speaks)).collect(),
            next_traffic: MonotonicUs(1_000_000),
            owners: BTreeMap::new(),
            seen: Vec::new(),
            truth: BTreeMap::new(),
            next_value: 1,
            next_ticket: 1,
            replies: BTreeMap::new(),
            steps: 0,
            reads: (0, 0),
            targets_come_first: false,
        };
        world.nodes.iter_mut().for_each(|node| node.keeps_log = keeps_log);
        world.start_coordinator();
        for index in 0..world.nodes.len() {
            world.start_node(index as u8 + 1);
        }
        let joined = |world: &World| world.nodes.iter().all(|node| node.uses_map());
        assert!(world.run_until(5_000_000, joined), "all nodes join");
        world.run_for(1_000_000);
        world
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    pub(crate) fn coordinator(&mut self) -> &mut Coordinator<MemoryMetaStore> {
        self.coordinator.as_mut().expect("the coordinator is up")
    }

    pub(crate) fn start_coordinator(&mut self) {
        let disk = self.disk.take().expect("the coordinator is down");
        let (cluster, speaks) = (ClusterId::from_bits(0xc1), self.nodes[0].speaks);
        let founding = Founding { cluster, first: info(1, 1), start: start_of(1), speaks };
        self.coordinator = Some(Coordinator::open(self.now, disk, founding, read_protocol).unwrap());
        for node in &mut self.nodes {
            node.connected(self.now);
        }
        self.drain();
    }

    /// Kills the coordinator: uncommitted changes and all messages to and from it are lost.
    pub(crate) fn kill_coordinator(&mut self) {
        if let Some(coordinator) = self.coordinator.take() {
            let mut disk = coordinator.into_meta();
            disk.fail_commits(None);
            self.disk = Some(disk);
        }
        self.in_flight.clear();
    }

    pub(crate) fn fail_commits(&mut self, failure: Option<CommitFailure>) {
        if let Some(coordinator) = &mut self.coordinator {
            coordinator.meta_mut().fail_commits(failure);
        }
    }

    pub(crate) fn start_node(&mut self, number: u8) {
        let now = self.now;
        self.node(number).start(now);
        self.drain();
    }

    /// Starts another process of the node in its last incarnation.
    pub(crate) fn start_copy_of_node(&mut self, number: u8) {
        let now = self.now;
        self.node(number).start_copy(now);
        self.drain();
    }

    /// Kills the node with its data. Messages from it may still arrive.
    pub(crate) fn kill_node(&mut self, number: u8) {
        self.node(number).kill();
        let (now, node) = (self.now, node_id(number));
        if let Some(coordinator) = &mut self.coordinator {
            coordinator.handle(now, CoordinatorInput::Disconnected { node });
        }
    }

    pub(crate) fn node(&mut self, number: u8) -> &mut SimNode {
        &mut self.nodes[usize::from(number) - 1]
    }

    /// Sends a request through a node; its answer appears in `replies` under the ticket.
    pub(crate) fn request(&mut self, through: u8, request: Request) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let now = self.now;
        self.next_traffic = now;
        self.node(through).request(now, ticket, request);
        self.drain();
        ticket
    }

    /// Sends a request and runs until it is answered.
    pub(crate) fn ask(&mut self, through: u8, request: Request) -> Reply {
        let ticket = self.request(through, request);
        assert!(self.run_until(60_000_000, |world| world.replies.contains_key(&ticket)), "an answer");
        self.replies.remove(&ticket).unwrap()
    }

    pub(crate) fn start(range: PositionRange, target: u8) -> Request {
        World::start_by("fulva", range, target)
    }

    pub(crate) fn start_by(protocol: &str, range: PositionRange, target: u8) -> Request {
        Request::StartMigration {
            range,
            target: NodeName::Id(node_id(target)),
            protocol: protocol.to_owned(),
            policy: MigrationPolicy::default(),
        }
    }

    pub(crate) fn status(&mut self) -> StatusReport {
        let now = self.now;
        self.coordinator().report(now)
    }

    pub(crate) fn migration(&mut self, id: u64) -> Option<MigrationStatus> {
        self.status().migrations.into_iter().find(|status| status.id == MigrationId(id))
    }

    pub(crate) fn owner_of(&mut self, chunk: u64) -> NodeId {
        self.coordinator().map().owner_of(Position(chunk * CHUNK))
    }

    pub(crate) fn run_for(&mut self, us: u64) {
        self.run_until(us, |_| false);
    }

    /// Runs until the condition holds, or for that long; returns whether it holds.
    pub(crate) fn run_until(&mut self, us: u64, done: impl Fn(&World) -> bool) -> bool {
        let end = self.now.plus_us(us);
        while !done(self) {
            if !self.step(end) {
                self.now = end;
                return done(self);
            }
        }
        true
    }

    /// Runs until every migration is over and everyone uses the last map.
    pub(crate) fn settle(&mut self) {
        let ended = self.run_until(120_000_000, World::is_settled);
        assert!(ended, "everything ends: {:#?}", self.status().migrations);
    }

    /// Whether every migration is over and everyone uses the last map.
    pub(crate) fn is_settled(&self) -> bool {
        let Some(coordinator) = &self.coordinator else { return false };
        let epoch = coordinator.map().epoch();
        self.committed().is_some_and(|data| data.unfinished().next().is_none())
            && self.nodes.iter().all(|node| node.uses_epoch(epoch) && node.holds_nothing())
    }

    /// The map as last committed.
    pub(crate) fn map(&self) -> &TabletMap {
        &self.committed().expect("a cluster").map
    }

    /// A node as refusals name it.
    pub(crate) fn shown(&self, number: u8) -> String {
        let NodeInfo { client_addr, id, .. } = info(number, 1);
        format!("{client_addr} ({})", &id.to_string()[..8])
    }

    /// Whether the migration runs.
    pub(crate) fn runs(&self, id: u64) -> bool {
        self.committed().is_some_and(|data| data.map.migration(MigrationId(id)).is_some())
    }

    /// Whether the source of the migration has counted.
    pub(crate) fn is_counted(&self, id: u64) -> bool {
        let record = self.committed().and_then(|data| data.migration(MigrationId(id)));
        record.is_some_and(|record| !record.partitions.is_empty())
    }

    /// Whether the chunk was given to a target that restarted before everything had arrived, so that the
    /// source's values are lost, too.
    fn is_given_up(&self, chunk: u64) -> bool {
        self.committed().is_some_and(|data| {
            data.all_migrations().any(|record| {
                let lives = data
                    .map
                    .node(record.target)
                    .is_some_and(|node| node.incarnation == record.target_incarnation);
                record.ran() && record.range.contains(Position(chunk * CHUNK)) && !lives
            })
        })
    }

    fn committed(&self) -> Option<&Metadata> {
        self.coordinator.as_ref().map(Coordinator::meta).or(self.disk.as_ref())?.committed()
    }

    /// One step: the next event before `end`, if there is one.
    fn step(&mut self, end: MonotonicUs) -> bool {
        let link = self.in_flight.next_at().map(MonotonicUs);
        let coordinator = self.coordinator.as_ref().and_then(Coordinator::poll_timeout);
        let nodes = self.nodes.iter().filter_map(SimNode::timeout).min();
        let Some(at) = [link, coordinator, nodes, Some(self.next_traffic)].into_iter().flatten().min() else {
            return false;
        };
        if at > end {
            return false;
        }
        self.now = self.now.max(at);
        if link == Some(at) {
            let message = self.in_flight.pop().expect("there is one");
            self.deliver(message);
            self.steps += 1;
        } else if coordinator == Some(at) {
            let now = self.now;
            self.coordinator().handle(now, CoordinatorInput::Timer);
            self.steps += 1;
        } else if nodes == Some(at) {
            self.step_node(at);
            self.steps += 1;
        } else {
            let (moving, still) = TRAFFIC_INTERVALS_US;
            self.next_traffic = self.now.plus_us(if self.is_settled() { still } else { moving });
            self.traffic();
        }
        self.drain();
        self.check_owners();
        if self.targets_come_first {
            self.check_targets_come_first();
        }
        true
    }

    fn step_node(&mut self, at: MonotonicUs) {
        let index =
            self.nodes.iter().position(|node| node.timeout() == Some(at)).expect("one has this timeout");
        let mut node = std::mem::replace(&mut self.nodes[index], SimNode::new(0, Speaks::THIS_BUILD));
        let random = self.below(u64::MAX);
        node.step(self.now, random, &self.nodes);
        self.nodes[index] = node;
    }

    fn deliver(&mut self, message: InFlight) {
        let now = self.now;
        match message {
            InFlight::ToCoordinator(message) => {
                if let Some(coordinator) = &mut self.coordinator {
                    coordinator.handle(now, CoordinatorInput::Message(message));
                }
            }
            InFlight::ToNode(message) => {
                if let Some(node) =
                    self.nodes.iter_mut().find(|node| node.info.id == message.to && !node.deaf)
                {
                    node.message(now, message);
                }
            }
        }
    }

    fn drain(&mut self) {
        let mut sent = Vec::new();
        if let Some(coordinator) = &mut self.coordinator {
            sent.extend(std::iter::from_fn(|| coordinator.poll_transmit()).map(InFlight::ToNode));
            while let Some(event) = coordinator.poll_event() {
                if let CoordinatorEvent::NotTakenOver { node, why } = event {
                    self.not_taken_over.push((node, why));
                }
            }
        }
        for node in &mut self.nodes {
            sent.extend(node.drain(self.now, &mut self.replies).into_iter().map(InFlight::ToCoordinator));
        }
        for message in sent {
            self.transmit(message);
        }
    }

    fn transmit(&mut self, message: InFlight) {
        let node = match &message {
            InFlight::ToCoordinator(message) => message.from,
            InFlight::ToNode(message) => message.to,
        };
        let cut = self.nodes.iter().any(|sim| sim.info.id == node && sim.cut_off);
        if !cut {
            for at in Way::new(self.links).datagram_at_us(0, self.now.0, &mut self.random) {
                self.in_flight.push(at, message.clone());
            }
        }
    }

    /// M1 by epochs: an epoch of a chunk never names two owners, in any map that anyone has seen.
    fn check_owners(&mut self) {
        let maps = self.coordinator.iter().map(|coordinator| coordinator.map());
        let maps: Vec<_> = maps.chain(self.nodes.iter().filter_map(SimNode::map)).cloned().collect();
        // A node keeps each map that it has seen alive, so one at the same address is the same.
        for map in maps {
            if self.seen.iter().any(|seen| Arc::ptr_eq(seen, &map)) {
                continue;
            }
            self.seen.push(Arc::clone(&map));
            for chunk in 0..CHUNKS {
                let tablet = map.tablet_at(Position(chunk * CHUNK));
                let owner = *self.owners.entry((chunk, tablet.epoch.0)).or_insert(tablet.owner);
                assert_eq!(
                    owner, tablet.owner,
                    "M1: chunk {chunk} has two owners at epoch {}",
                    tablet.epoch.0
                );
            }
        }
    }

    /// Every worker of the target expects the clients that a source's worker redirects.
    fn check_targets_come_first(&self) {
        let running = self.committed().map(|data| data.map.migrations().to_vec()).unwrap_or_default();
        for record in running {
            let node = |id| self.nodes.iter().find(|node| node.info.id == id).expect("a member");
            let redirects = node(record.source).goes_by(record.map_epoch);
            assert!(
                !redirects || node(record.target).uses_at_least(record.map_epoch),
                "the source of migration {} redirects to a target that does not know of it",
                record.id
            );
        }
    }

    /// Writes and reads every chunk wherever a node would answer.
    fn traffic(&mut self) {
        for chunk in 0..CHUNKS {
            let serving: Vec<usize> =
                (0..self.nodes.len()).filter(|&n| self.nodes[n].acknowledges(chunk)).collect();
            assert!(serving.len() <= 1, "M1: {} nodes acknowledge writes of chunk {chunk}", serving.len());
            let Some(&index) = serving.first() else { continue };
            match self.nodes[index].read(chunk, &self.nodes) {
                node::Read::Value(value) => {
                    assert_eq!(Some(&value), self.truth.get(&chunk), "a read of chunk {chunk} is stale");
                    self.reads.0 += 1;
                }
                node::Read::Absent => {
                    let lost = self.truth.remove(&chunk);
                    if let Some(value) = lost {
                        let restarted = self.nodes.iter().any(|node| node.lost.contains(&(chunk, value)));
                        assert!(
                            restarted || self.is_given_up(chunk),
                            "chunk {chunk} lost a value that no restart explains"
                        );
                        self.reads.1 += 1;
                    }
                }
                node::Read::NotHereYet => {}
            }
            if self.below(4) == 0 {
                let value = self.next_value;
                self.next_value += 1;
                self.nodes[index].write(chunk, value);
                self.truth.insert(chunk, value);
            }
        }
    }
}

/// Asserts that the migration ended in a state that agrees with the map.
pub(crate) fn assert_defined(world: &mut World, id: u64, range: (u64, u64), source: u8, target: u8) {
    let Some(status) = world.migration(id) else {
        // The request was lost with the process that received it.
        assert_eq!(world.owner_of(range.0), node_id(source));
        return;
    };
    let ran = status.epoch.0 > 0;
    let owner = if ran { target } else { source };
    for chunk in range.0..=range.1 {
        assert_eq!(world.owner_of(chunk), node_id(owner), "{status:?}");
    }
    match status.state.as_str() {
        "done" => assert!(ran),
        "failed" => assert!(status.why.is_some()),
        "cancelled" => assert!(!ran),
        state => panic!("migration {id} is still {state}"),
    }
    assert!(status.why.is_none_or(|why| !why.is_empty()));
}

/// The states as a request sees them.
pub(crate) fn state_named(reply: &Reply) -> Option<(MigrationId, MigrationState)> {
    match reply {
        Reply::Started { migration, state } => Some((*migration, state.clone())),
        _ => None,
    }
}

/// The protocols here: one of each kind that the coordinator knows.
pub(crate) fn read_protocol(text: &str) -> Result<ProtocolOutline, String> {
    match text {
        "fulva" => Ok(ProtocolOutline {
            partitions: 8,
            frozen_reads: true,
            copies_before_freeze: false,
            copies_in_preparation: None,
            gives_by_cuts: false,
            needs: ProtocolVersion::PREVIOUS,
        }),
        AHEAD => Ok(ProtocolOutline {
            partitions: 8,
            frozen_reads: false,
            copies_before_freeze: true,
            copies_in_preparation: Some(ProtocolVersion::PREVIOUS),
            gives_by_cuts: false,
            needs: ProtocolVersion::PREVIOUS,
        }),
        _ => Err(format!("there is no migration protocol '{text}': the protocols are fulva")),
    }
}
