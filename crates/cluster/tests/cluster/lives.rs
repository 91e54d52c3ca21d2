//! One migration's value at a node, from the first message that names it until nothing of it is left.

use crate::world::{info, node_id};
use sidle_cluster::{
    AgentEvent, AgentInput, ClusterId, CoordinatorSays, End, Incarnation, MigrationCounters, MigrationRecord,
    MigrationState, NodeAgent, NodeSays, PrepareRefusal, RequestKey, SourceStage, StartNumber, Tablet,
    TabletMap, TargetStage, Term, ToCoordinator, ToNode,
};
use sidle_types::{
    MapEpoch, MigrationId, MigrationPolicy, MonotonicUs, PositionRange, ProtocolVersion, TabletEpoch,
};
use std::sync::Arc;

const ID: MigrationId = MigrationId(7);
const NOW: MonotonicUs = MonotonicUs(1_000_000);

/// The test driver's state for a migration.
#[derive(Debug, PartialEq)]
struct Kept;

type Agent = NodeAgent<Kept, Kept>;

/// An agent of node 1, which is a member, with its map in use.
fn member() -> Agent {
    let mut agent = Agent::new(NOW, info(1, 1), StartNumber(1), None);
    agent.handle(NOW, AgentInput::Connected);
    let map = Arc::new(TabletMap::founded_by(info(1, 1)));
    hear(&mut agent, CoordinatorSays::Welcome { cluster: ClusterId::from_bits(1), map: Arc::clone(&map) });
    agent.handle(NOW, AgentInput::Published(map.epoch()));
    assert_eq!(events(&mut agent), []);
    agent
}

/// A migration from one node to another.
fn record(source: u8, target: u8) -> MigrationRecord {
    MigrationRecord {
        id: ID,
        protocol: "fulva".to_owned(),
        frozen_reads: true,
        kept_by_source: false,
        range: PositionRange::ALL,
        policy: MigrationPolicy::default(),
        source: node_id(source),
        source_incarnation: Incarnation(1),
        target: node_id(target),
        target_incarnation: Incarnation(1),
        epoch: TabletEpoch(2),
        map_epoch: MapEpoch(0),
        partitions: vec![PositionRange::ALL],
        state: MigrationState::Preparing,
        counters: MigrationCounters::default(),
        requested_by: RequestKey { node: node_id(2), incarnation: Incarnation(1), number: 1 },
        version: ProtocolVersion::CURRENT,
        turn: None,
        continues: None,
        kept_is_noted: false,
        source_log: None,
        succession: 0,
    }
}

fn events(agent: &mut Agent) -> Vec<AgentEvent> {
    std::iter::from_fn(|| agent.poll_event()).collect()
}

fn hear(agent: &mut Agent, body: CoordinatorSays) -> Vec<AgentEvent> {
    agent.handle(
        NOW,
        AgentInput::Message(ToNode {
            to: node_id(1),
            incarnation: Incarnation(1),
            start: None,
            term: Term::ONLY,
            body,
        }),
    );
    events(agent)
}

fn prepare() -> CoordinatorSays {
    CoordinatorSays::Prepare { record: Box::new(record(2, 1)) }
}

fn over() -> CoordinatorSays {
    CoordinatorSays::Over { migration: ID, record: None, map_epoch: MapEpoch(1) }
}

/// The messages sent, except heartbeats.
fn sent(agent: &mut Agent) -> Vec<NodeSays> {
    let sent = std::iter::from_fn(|| agent.poll_transmit()).map(|message| message.body);
    sent.filter(|body| !matches!(body, NodeSays::Heartbeat(_) | NodeSays::Join { .. })).collect()
}

/// How many migrations the coordinator may still send messages about.
fn held(agent: &Agent) -> usize {
    agent.queues().into_iter().find(|fill| fill.what == "migrations held at a node").unwrap().count
}

#[test]
fn the_end_is_announced_once_and_the_value_stays_as_long_as_something_hangs_on_it() {
    let mut agent = member();
    assert_eq!(hear(&mut agent, prepare()), [AgentEvent::Prepare(ID)]);
    agent.migrations.targets.get_mut(&ID).unwrap().import = Some(Kept);
    assert_eq!(held(&agent), 1);
    assert!(matches!(&hear(&mut agent, over())[..], [AgentEvent::Over(ID, End::GivenUp(_))]));
    assert!(agent.migrations.targets.contains_key(&ID), "something is left");
    assert_eq!(held(&agent), 0, "the coordinator need not be asked about it any more");
    assert_eq!(hear(&mut agent, over()), [], "the end is announced once");
    assert_eq!(hear(&mut agent, prepare()), [], "what has ended is not begun again");
    assert_eq!(sent(&mut agent), [], "nor reported");
    agent.migrations.targets.get_mut(&ID).unwrap().import = None;
    assert_eq!(events(&mut agent), []);
    assert!(agent.migrations.targets.is_empty(), "nothing is left");
    assert_eq!(hear(&mut agent, prepare()), []);
}

#[test]
fn a_node_joins_once_it_is_connected_and_not_before() {
    let mut agent = Agent::new(NOW, info(1, 1), StartNumber(1), None);
    agent.handle(NOW, AgentInput::Timer);
    assert_eq!(agent.poll_transmit(), None, "it may be reading its durable log");
    assert_eq!(agent.poll_timeout(), None);
    agent.handle(NOW, AgentInput::Connected);
    assert!(matches!(agent.poll_transmit(), Some(ToCoordinator { body: NodeSays::Join { .. }, .. })));
    assert!(agent.poll_timeout().is_some_and(|due| due > NOW));
}

#[test]
fn a_change_is_due_at_once_and_answered_again_as_often_as_asked() {
    let mut agent = member();
    hear(&mut agent, prepare());
    assert!(agent.poll_timeout().unwrap() > NOW);
    agent.migrations.targets.get_mut(&ID).unwrap().advance(TargetStage::Ready);
    assert!(agent.poll_timeout().unwrap() <= NOW);
    agent.handle(NOW, AgentInput::Timer);
    assert_eq!(sent(&mut agent), [NodeSays::Prepared { migration: ID }]);
    assert!(agent.poll_timeout().unwrap() > NOW);
    hear(&mut agent, prepare());
    assert_eq!(sent(&mut agent), [NodeSays::Prepared { migration: ID }]);
    let why = PrepareRefusal::Other { why: "the copy failed".to_owned() };
    agent.migrations.targets.get_mut(&ID).unwrap().refuse(why.clone());
    for _ in 0..2 {
        hear(&mut agent, prepare());
        assert_eq!(sent(&mut agent), [NodeSays::PrepareRefused { migration: ID, why: why.clone() }]);
    }
}

#[test]
fn what_is_said_before_a_map_shows_it_running_is_told_after() {
    let mut agent = member();
    hear(&mut agent, prepare());
    let target = agent.migrations.targets.get_mut(&ID).unwrap();
    target.advance(TargetStage::Ready);
    target.finish(Err("the source is gone".to_owned()));
    agent.handle(NOW, AgentInput::Timer);
    assert_eq!(sent(&mut agent), [NodeSays::Prepared { migration: ID }]);
    let began = MigrationRecord { map_epoch: MapEpoch(2), state: MigrationState::Running, ..record(2, 1) };
    let tablet = Tablet { range: PositionRange::ALL, owner: node_id(1), epoch: TabletEpoch(2) };
    let map = TabletMap::new(MapEpoch(2), vec![info(1, 1), info(2, 1)], vec![tablet], vec![began]);
    let update = CoordinatorSays::MapUpdate { map: Arc::new(map.unwrap()) };
    assert!(matches!(hear(&mut agent, update)[..], [AgentEvent::StartImport(ID), AgentEvent::Publish(_)]));
    agent.migrations.targets.get_mut(&ID).unwrap().advance(TargetStage::Importing);
    agent.handle(NOW, AgentInput::Timer);
    assert!(matches!(sent(&mut agent).last(), Some(NodeSays::Broken { migration: ID, .. })));
}

/// A faulty coordinator names a migration in one role, then in the other.
#[test]
fn a_migration_keeps_its_role() {
    let mut agent = member();
    hear(&mut agent, prepare());
    let range = PositionRange::ALL;
    assert_eq!(hear(&mut agent, CoordinatorSays::Survey { migration: ID, range, partitions: 4 }), []);
    assert_eq!(hear(&mut agent, CoordinatorSays::Track { record: Box::new(record(1, 2)) }), []);
    assert!(agent.migrations.sources.is_empty());

    let mut agent = member();
    assert_eq!(
        hear(&mut agent, CoordinatorSays::Track { record: Box::new(record(1, 2)) }),
        [AgentEvent::Track(ID)]
    );
    assert_eq!(agent.migrations.sources[&ID].stage, SourceStage::Waiting);
    assert_eq!(hear(&mut agent, prepare()), []);
    assert!(agent.migrations.targets.is_empty());
}

/// The end of a hand-off that was given back is not known at its source yet, and the next migration of the
/// range begins.
#[test]
fn a_range_is_counted_again_once_what_gave_it_away_is_over_here() {
    let next = MigrationId(8);
    let mut agent = member();
    let began = MigrationRecord { map_epoch: MapEpoch(2), state: MigrationState::Running, ..record(1, 2) };
    let tablet = Tablet { range: PositionRange::ALL, owner: node_id(2), epoch: TabletEpoch(2) };
    let map = TabletMap::new(MapEpoch(2), vec![info(1, 1), info(2, 1)], vec![tablet], vec![began]);
    hear(&mut agent, CoordinatorSays::MapUpdate { map: Arc::new(map.unwrap()) });
    let source = agent.migrations.sources.get_mut(&ID).unwrap();
    (source.stage, source.view) = (SourceStage::Exported, Some(Kept));
    let range = PositionRange::ALL;
    let survey = || CoordinatorSays::Survey { migration: next, range, partitions: 4 };
    let track = || CoordinatorSays::Track { record: Box::new(MigrationRecord { id: next, ..record(1, 2) }) };
    assert_eq!(hear(&mut agent, survey()), []);
    assert_eq!(hear(&mut agent, track()), []);
    assert!(!agent.migrations.sources.contains_key(&next));
    assert!(matches!(hear(&mut agent, over())[..], [AgentEvent::Over(ID, End::GivenAway(_))]));
    assert_eq!(hear(&mut agent, survey()), [], "it is announced, and not taken back yet");
    let source = agent.migrations.sources.get_mut(&ID).unwrap();
    (source.stage, source.view) = (SourceStage::Over, None);
    assert_eq!(hear(&mut agent, survey()), [AgentEvent::Survey(next, 4)]);
}
