//! A migration that gives its range bit by bit turns back: in one change it ends, and its way back runs.

use crate::world::{info, node_id, start_of};
use sidle_cluster::{
    ClusterId, CommitFailure, Coordinator, CoordinatorInput, CoordinatorSays, Founding, Heartbeat,
    Incarnation, MemoryMetaStore, MigrationRecord, MigrationState, NodeInfo, NodeName, NodeSays, Progress,
    ProtocolOutline, Refusal, Reply, Request, Settled, Survey, ToCoordinator,
};
use sidle_types::{
    MapEpoch, MigrationId, MigrationPolicy, MonotonicUs, PositionRange, ProtocolVersion, Speaks, TabletEpoch,
};

const RANGE: PositionRange = PositionRange::ALL;

fn read_protocol(_: &str) -> Result<ProtocolOutline, String> {
    Ok(ProtocolOutline {
        partitions: 1,
        frozen_reads: false,
        copies_before_freeze: false,
        copies_in_preparation: None,
        gives_by_cuts: true,
        needs: ProtocolVersion::CURRENT,
    })
}

fn founding() -> Founding {
    Founding {
        cluster: ClusterId::from_bits(1),
        first: info(1, 1),
        start: start_of(1),
        speaks: Speaks::THIS_BUILD,
    }
}

/// A coordinator, and what it has sent since the last look.
struct Scene {
    coordinator: Coordinator<MemoryMetaStore>,
    now: MonotonicUs,
    requests: u64,
}

impl Scene {
    /// Node 1 gives everything to node 2: the migration runs, and only node 2 knows.
    fn just_committed() -> Scene {
        let now = MonotonicUs(1_000_000);
        let coordinator = Coordinator::open(now, MemoryMetaStore::new(), founding(), read_protocol);
        let mut scene = Scene { coordinator: coordinator.unwrap(), now, requests: 0 };
        scene.join(2, 1);
        let start = Request::StartMigration {
            range: RANGE,
            target: NodeName::Id(node_id(2)),
            protocol: "cuts".to_owned(),
            policy: MigrationPolicy::default(),
        };
        scene.ask(start);
        let survey = Survey { records: 10, bytes: 1_000, partitions: vec![RANGE] };
        scene.says(1, NodeSays::Surveyed { migration: MigrationId(1), survey });
        scene.says(2, NodeSays::Prepared { migration: MigrationId(1) });
        assert_eq!(scene.record(1).state, MigrationState::Running);
        scene
    }

    /// The same, and both nodes use the map.
    fn running() -> Scene {
        let mut scene = Scene::just_committed();
        scene.all_use_the_map();
        assert!(!scene.coordinator.would_give_back(MigrationId(1)));
        scene
    }

    /// The same, and it was asked to turn back.
    fn turning() -> Scene {
        let mut scene = Scene::running();
        assert_eq!(scene.cancel(1), turns_back(1, 2));
        scene
    }

    /// The same, and it has turned back.
    fn turned() -> Scene {
        let mut scene = Scene::turning();
        scene.turns(2, 1);
        scene
    }

    /// The target reports that nothing is in transit, and the source that it has noted what it kept.
    fn turns(&mut self, target: u8, id: u64) -> Vec<(u8, CoordinatorSays)> {
        self.settled(target, id, Settled::OwnsSome);
        self.noted(3 - target)
    }

    /// The node uses the present map, and so has noted what that asks for.
    fn noted(&mut self, node: u8) -> Vec<(u8, CoordinatorSays)> {
        let map_epoch = self.coordinator.map().epoch();
        self.says(node, NodeSays::Heartbeat(Heartbeat { map_epoch, ..Heartbeat::default() }))
    }

    fn says(&mut self, from: u8, body: NodeSays) -> Vec<(u8, CoordinatorSays)> {
        self.now = self.now.plus_us(1_000);
        let incarnation = self.coordinator.map().node(node_id(from)).unwrap().incarnation;
        let message = ToCoordinator { from: node_id(from), incarnation, body };
        self.coordinator.handle(self.now, CoordinatorInput::Message(message));
        let sent = std::iter::from_fn(|| self.coordinator.poll_transmit());
        let number = |id| (1..=9).find(|&number| node_id(number) == id).unwrap();
        sent.map(|sent| (number(sent.to), sent.body)).collect()
    }

    fn join(&mut self, number: u8, incarnation: u64) {
        self.join_with_log(number, incarnation, None);
    }

    /// The same, with a durable log that has everything since an incarnation.
    fn join_with_log(&mut self, number: u8, incarnation: u64, log_since: Option<u64>) {
        let log_since = log_since.map(Incarnation);
        let NodeInfo { id, incarnation, client_addr, bus_addr } = info(number, incarnation);
        let (start, speaks) = (Some(start_of(incarnation.0)), Speaks::THIS_BUILD);
        let body = NodeSays::Join { client_addr, bus_addr, cluster: None, start, speaks, log_since };
        // Its earlier incarnation has been silent.
        for _ in 0..100 {
            self.now = self.now.plus_us(100_000);
            self.coordinator.handle(self.now, CoordinatorInput::Timer);
        }
        let message = ToCoordinator { from: id, incarnation, body };
        self.coordinator.handle(self.now, CoordinatorInput::Message(message));
        while self.coordinator.poll_transmit().is_some() {}
    }

    fn all_use_the_map(&mut self) {
        for node in [2, 1, 2] {
            self.noted(node);
        }
    }

    fn ask(&mut self, request: Request) -> Option<Reply> {
        self.requests += 1;
        let number = self.requests;
        let sent = self.says(1, NodeSays::Request { number, oldest_open: number, request });
        sent.into_iter().find_map(|(_, body)| match body {
            CoordinatorSays::Reply { number: of, reply } if of == number => Some(reply),
            _ => None,
        })
    }

    fn cancel(&mut self, id: u64) -> Reply {
        self.ask(Request::Cancel { migration: MigrationId(id) }).unwrap()
    }

    fn progress(&mut self, target: u8, id: u64, progress: Progress) -> Vec<(u8, CoordinatorSays)> {
        self.says(target, NodeSays::Progress { migration: MigrationId(id), progress })
    }

    fn settled(&mut self, target: u8, id: u64, settled: Settled) -> Vec<(u8, CoordinatorSays)> {
        let moved = Progress { records_moved: 4, bytes_moved: 400, ..Progress::default() };
        self.progress(target, id, Progress { settled: Some(settled), ..moved })
    }

    fn reopen(&mut self) {
        let meta = self.coordinator.meta().committed().unwrap().clone();
        let mut store = MemoryMetaStore::new();
        sidle_cluster::MetaStore::commit(&mut store, &meta).unwrap();
        self.coordinator = Coordinator::open(self.now, store, founding(), read_protocol).unwrap();
        for node in [1, 2] {
            let incarnation = self.coordinator.map().node(node_id(node)).unwrap().incarnation.0;
            self.join(node, incarnation);
        }
    }

    fn record(&self, id: u64) -> MigrationRecord {
        self.coordinator.data().migration(MigrationId(id)).unwrap().clone()
    }

    fn owner(&self) -> u8 {
        let owner = self.coordinator.map().owner_of(RANGE.first());
        if owner == node_id(1) { 1 } else { 2 }
    }

    /// What the status says of its turn.
    fn turn(&self, id: u64) -> Option<String> {
        let report = self.coordinator.report(self.now);
        report.migrations.into_iter().find(|status| status.id.0 == id).unwrap().turn
    }
}

fn turns_back(migration: u64, by: u64) -> Reply {
    Reply::TurnsBack { migration: MigrationId(migration), by: MigrationId(by) }
}

fn assert_turned(scene: &Scene) {
    let (before, back) = (scene.record(1), scene.record(2));
    assert_eq!((before.state, before.counters.records_moved), (MigrationState::Cancelled, 4));
    assert_eq!((back.state, back.continues), (MigrationState::Running, Some(MigrationId(1))));
    assert_eq!((back.source, back.target, back.range), (node_id(2), node_id(1), RANGE));
    assert_eq!(back.epoch, TabletEpoch(before.epoch.0 + 1));
    assert_eq!((back.counters.records, back.counters.records_moved), (4, 0));
    assert_eq!(scene.owner(), 1);
    assert_eq!(scene.turn(1).unwrap(), "turned back: migration 2 continues");
    assert_eq!(scene.turn(2).unwrap(), "turned back: continues migration 1");
}

#[test]
fn it_ends_and_its_way_back_runs_in_one_change() {
    let mut scene = Scene::turning();
    assert_eq!(scene.record(1).state, MigrationState::Running);
    assert!(scene.turn(1).unwrap().contains("migration 2 will continue"));
    assert_eq!(
        scene.coordinator.map().migrations()[0].turn.unwrap().by,
        MigrationId(2),
        "the target reads it"
    );
    scene.settled(2, 1, Settled::OwnsSome);
    assert!(scene.coordinator.map().migrations()[0].settled_for().is_some(), "the source reads it");
    let before = scene.coordinator.meta().commits();
    let sent = scene.noted(1);
    assert_eq!(scene.coordinator.meta().commits(), before + 1);
    assert_turned(&scene);
    let over =
        |node: u8| sent.iter().any(|(to, body)| *to == node && matches!(body, CoordinatorSays::Over { .. }));
    assert!(over(1) && over(2), "both are told that it is over");
    assert!(!scene.coordinator.would_give_back(MigrationId(2)), "its target owns a share");
}

#[test]
fn cancel_twice_turns_once() {
    let mut scene = Scene::turning();
    let epoch = scene.coordinator.map().epoch();
    assert_eq!(scene.cancel(1), turns_back(1, 2));
    assert_eq!(scene.coordinator.map().epoch(), epoch);
    scene.turns(2, 1);
    assert_eq!(scene.cancel(1), turns_back(1, 2), "it has turned");
    assert_turned(&scene);
}

#[test]
fn cancel_of_the_way_back_turns_again() {
    let mut scene = Scene::turned();
    scene.all_use_the_map();
    assert_eq!(scene.cancel(2), turns_back(2, 3));
    let moved = Progress { records_moved: 1, bytes_moved: 100, ..Progress::default() };
    scene.progress(1, 2, Progress { settled: Some(Settled::OwnsSome), ..moved });
    scene.noted(2);
    let third = scene.record(3);
    assert_eq!((third.source, third.continues), (node_id(1), Some(MigrationId(2))));
    let to_move = (third.counters.records, third.counters.bytes);
    assert_eq!(to_move, (10 - 4 + 1, 1_000 - 400 + 100), "what was never given, and what came back");
    assert_eq!(scene.owner(), 2);
    assert_eq!(scene.turn(2).unwrap(), "turned back: migration 3 continues");
}

#[test]
fn a_way_back_turns_only_when_its_source_knows_of_it() {
    let mut scene = Scene::turned();
    assert_eq!(scene.cancel(2), turns_back(2, 3));
    scene.settled(1, 2, Settled::OwnsSome);
    assert_eq!(scene.record(2).state, MigrationState::Running, "node 2 could begin nothing with its share");
    scene.noted(2);
    assert_eq!(scene.record(2).state, MigrationState::Running, "nor is it noted");
    scene.noted(2);
    assert_eq!((scene.record(2).state, scene.record(3).state.name()), (MigrationState::Cancelled, "running"));
}

#[test]
fn a_way_back_is_known_before_it_begins() {
    let mut scene = Scene::turning();
    let [migration, before] = [MigrationId(2), MigrationId(1)];
    let not_yet = Reply::Refused(Refusal::UnknownMigration { migration, continues: Some(before) });
    assert_eq!(scene.cancel(2), not_yet);
    assert_eq!(
        scene.ask(Request::SetPolicy { migration, policy: MigrationPolicy::default() }),
        Some(not_yet)
    );
    assert!(!matches!(scene.cancel(3), Reply::Refused(Refusal::UnknownMigration { continues: Some(_), .. })));
    scene.turns(2, 1);
    assert_eq!(scene.cancel(2), turns_back(2, 3));
    // Once all was given there will be none.
    let mut late = Scene::turning();
    late.says(2, NodeSays::Finished { migration: before, progress: Progress::default() });
    assert_eq!(late.cancel(2), Reply::Refused(Refusal::UnknownMigration { migration, continues: None }));
}

#[test]
fn the_target_of_a_range_that_is_given_bit_by_bit_serves_while_it_runs() {
    let activated = |scene: &Scene, id: u64| {
        let report = scene.coordinator.report(scene.now);
        report.migrations.into_iter().find(|status| status.id.0 == id).unwrap().activated
    };
    let mut scene = Scene::running();
    assert!(activated(&scene, 1));
    assert_eq!(scene.cancel(1), turns_back(1, 2));
    scene.turns(2, 1);
    assert_eq!(
        (activated(&scene, 1), activated(&scene, 2)),
        (false, true),
        "given back, and on its way back"
    );
}

#[test]
fn cancel_is_free_before_anything_was_given() {
    // The source knows of nothing, or the target has been given nothing.
    let mut unknown = Scene::just_committed();
    assert_eq!(unknown.cancel(1), Reply::Cancelled { migration: MigrationId(1) });
    let mut nothing = Scene::turning();
    nothing.settled(2, 1, Settled::OwnsNothing);
    assert_eq!(nothing.cancel(1), Reply::Cancelled { migration: MigrationId(1) });
    for scene in [unknown, nothing] {
        let record = scene.record(1);
        assert_eq!((record.state, record.map_epoch), (MigrationState::Cancelled, MapEpoch(0)));
        assert_eq!((scene.owner(), scene.coordinator.map().migrations()), (1, &[][..]));
        assert_eq!((scene.coordinator.data().migration(MigrationId(2)), scene.turn(1)), (None, None));
    }
}

#[test]
fn cancel_is_refused_once_all_is_given() {
    let mut scene = Scene::running();
    scene.progress(2, 1, Progress { activated: true, ..Progress::default() });
    let refused = Reply::Refused(Refusal::GaveAll { migration: MigrationId(1), range: RANGE, why: None });
    assert_eq!(scene.cancel(1), refused);
    // It may have crossed the last cut in transit.
    let mut late = Scene::turning();
    late.says(2, NodeSays::Finished { migration: MigrationId(1), progress: Progress::default() });
    assert_eq!((late.record(1).state, late.owner()), (MigrationState::Done, 2));
    assert!(late.turn(1).is_some_and(|turn| turn.contains("there is no migration 2")));
}

#[test]
fn a_coordinator_that_restarts_at_the_turn_goes_on_with_it() {
    let mut scene = Scene::turning();
    scene.reopen();
    assert_eq!(scene.record(1).state, MigrationState::Running);
    assert_eq!(scene.cancel(1), turns_back(1, 2), "it is remembered");
    scene.settled(2, 1, Settled::OwnsSome);
    scene.reopen();
    assert_eq!(scene.record(1).state, MigrationState::Running, "the source has not noted what it kept");
    scene.turns(2, 1);
    assert_turned(&scene);
    scene.reopen();
    assert_turned(&scene);
    scene.says(1, NodeSays::Finished { migration: MigrationId(2), progress: Progress::default() });
    assert_eq!((scene.record(2).state, scene.owner()), (MigrationState::Done, 1));
}

#[test]
fn a_turn_that_may_not_be_written_down_is_acted_on_when_it_is() {
    for failure in [CommitFailure::NotWritten, CommitFailure::Written] {
        for restarts in [false, true] {
            let mut scene = Scene::turning();
            scene.settled(2, 1, Settled::OwnsSome);
            scene.coordinator.meta_mut().fail_commits(Some(failure));
            let sent = scene.noted(1);
            assert_eq!(scene.record(1).state, MigrationState::Running);
            let acts = |(_, body): &(u8, CoordinatorSays)| {
                matches!(body, CoordinatorSays::MapUpdate { .. } | CoordinatorSays::Over { .. })
            };
            assert!(!sent.iter().any(acts), "{sent:?}");
            scene.coordinator.meta_mut().fail_commits(None);
            if restarts {
                scene.reopen();
            } else {
                scene.now = scene.now.plus_us(5_000_000);
            }
            scene.turns(2, 1);
            assert_turned(&scene);
        }
    }
}

#[test]
fn a_death_at_the_turn_leaves_the_range_to_who_has_the_rest() {
    // Before it: as of any migration that gives bit by bit.
    let mut scene = Scene::turning();
    scene.join(2, 2);
    assert_eq!((scene.record(1).state.name(), scene.owner()), ("failed", 1));
    let mut scene = Scene::turning();
    scene.join(1, 2);
    assert_eq!((scene.record(1).state.name(), scene.owner()), ("failed", 2));
    // What was moved is shown though it is lost.
    let mut scene = Scene::running();
    scene.progress(2, 1, Progress { records_moved: 3, bytes_moved: 300, ..Progress::default() });
    scene.join(2, 2);
    let counters = scene.record(1).counters;
    assert_eq!(
        (scene.record(1).state.name(), counters.records_moved, counters.bytes_moved),
        ("failed", 3, 300)
    );
    // After it: the other way round.
    let mut scene = Scene::turned();
    scene.join(1, 2);
    assert_eq!((scene.record(2).state.name(), scene.owner()), ("failed", 2));
    let why = scene.record(2).state.why().unwrap().to_owned();
    assert!(why.contains("what it had kept of") && why.contains("serves the rest as before"), "{why}");
    let mut scene = Scene::turned();
    scene.join(2, 2);
    assert_eq!((scene.record(2).state.name(), scene.owner()), ("failed", 1));
}

/// A story of a named fault: nothing is in transit, and the source has yet to note what it kept.
pub(crate) fn a_turn_before_it_is_noted() {
    let mut scene = Scene::turning();
    scene.settled(2, 1, Settled::OwnsSome);
    assert_eq!(scene.record(1).state, MigrationState::Running);
    scene.noted(1);
    assert_turned(&scene);
}

#[test]
fn a_turn_waits_until_the_source_has_noted_what_it_kept() {
    a_turn_before_it_is_noted();
}

#[test]
fn a_restart_before_the_turn_ends_it_and_one_after_it_does_not() {
    for node in [1, 2] {
        let mut scene = Scene::turning();
        for number in [1, 2] {
            scene.join_with_log(number, 2, Some(1));
        }
        // Such a restart of both is one of a range that is given whole.
        assert!(!scene.record(1).kept_by_source);
        let turn = scene.turn(1).unwrap_or_default();
        assert!(turn.contains("before it could turn back (one of its nodes restarted)"), "{turn}");
        let Reply::Refused(refusal) = scene.cancel(1) else { panic!("all is given") };
        assert!(refusal.to_string().contains("at once (one of its nodes restarted)"), "{refusal}");
        scene.settled(2, 1, Settled::OwnsSome);
        scene.noted(1);
        assert_eq!(scene.record(1).state, MigrationState::Running, "it goes on to its end");

        let mut scene = Scene::turned();
        scene.all_use_the_map();
        // What it has noted is in the log of its first incarnation.
        scene.join_with_log(node, 2, Some(1));
        let back = scene.record(2);
        assert_eq!((back.state, back.kept_by_source), (MigrationState::Running, false), "node {node}");
        assert_eq!((scene.owner(), back.continues), (1, Some(MigrationId(1))));
    }
}

#[test]
fn a_silent_target_of_a_way_back_keeps_its_share() {
    let mut scene = Scene::turned();
    for _ in 0..10 {
        scene.now = scene.now.plus_us(1_000_000);
        scene.says(2, NodeSays::Heartbeat(Heartbeat::default()));
    }
    assert_eq!((scene.record(2).state, scene.owner()), (MigrationState::Running, 1));
}
