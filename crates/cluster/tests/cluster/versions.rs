//! A cluster's version: who may join, when it is raised, and what a migration does meanwhile.

use crate::world::{World, chunks, info, node_id, read_protocol, start_of};
use sidle_cluster::{
    ClusterId, CommitFailure, Coordinator, CoordinatorInput, CoordinatorSays, Founding, Heartbeat,
    Incarnation, MemoryMetaStore, MetaStore, Metadata, NodeInfo, NodeName, NodeSays, Refusal, Reply, Request,
    TabletMap, ToCoordinator, Upgraded,
};
use sidle_types::{MigrationId, MonotonicUs, ProtocolVersion, Speaks};
use std::collections::BTreeSet;

const BEFORE: ProtocolVersion = ProtocolVersion::PREVIOUS;
const NOW: ProtocolVersion = ProtocolVersion::CURRENT;
/// A program without the current version.
const OLD: Speaks = Speaks::only(BEFORE);
const NEW: Speaks = Speaks::THIS_BUILD;

/// A cluster that speaks the version before this one, of nodes with these programs.
fn old_cluster(seed: u64, programs: &[Speaks]) -> World {
    let mut builds = programs.to_vec();
    builds[0] = OLD;
    let mut world = World::of_builds(seed, &builds);
    if programs[0] != OLD {
        restart(&mut world, 1, programs[0]);
    }
    world
}

/// Restarts a node with this program; for node 1 the coordinator, too.
fn restart(world: &mut World, node: u8, program: Speaks) {
    world.kill_node(node);
    world.node(node).speaks = program;
    if node == 1 {
        world.kill_coordinator();
        world.start_coordinator();
    }
    world.start_node(node);
    world.run_for(3_000_000);
}

fn version(world: &mut World) -> ProtocolVersion {
    world.status().cluster_version
}

fn upgrade(world: &mut World) -> Reply {
    world.ask(2, Request::Upgrade)
}

fn upgraded(before: ProtocolVersion, version: ProtocolVersion) -> Reply {
    Reply::Upgraded(Upgraded { before, version })
}

/// The text of a refusal.
fn refused(reply: &Reply) -> String {
    match reply {
        Reply::Refused(refusal) => refusal.to_string(),
        reply => panic!("not refused: {reply:?}"),
    }
}

fn uses(world: &mut World, node: u8) -> Option<ProtocolVersion> {
    world.node(node).map().map(|map| map.version())
}

#[test]
fn a_new_cluster_speaks_what_its_founder_speaks_last() {
    for (program, spoken) in [(NEW, NOW), (OLD, BEFORE)] {
        let mut world = World::of_builds(1, &[program, NEW]);
        let status = world.status();
        assert_eq!(status.cluster_version, spoken);
        assert_eq!(
            status.nodes.iter().map(|node| node.speaks).collect::<Vec<_>>(),
            [Some(program), Some(NEW)]
        );
        assert_eq!(uses(&mut world, 2), Some(spoken));
    }
}

#[test]
fn nodes_are_restarted_one_by_one_and_then_the_version_is_raised() {
    let mut world = old_cluster(2, &[OLD, OLD, OLD]);
    assert_eq!(upgrade(&mut world), upgraded(BEFORE, BEFORE), "nothing to be done");
    for node in [3, 1] {
        restart(&mut world, node, NEW);
        let why = refused(&upgrade(&mut world));
        assert!(why.contains("stays at version 3") && why.contains("not speak version 4"), "{why}");
        assert!(why.contains("10.0.0.2:7000") && !why.contains("10.0.0.3:7000"), "those behind: {why}");
        assert_eq!(version(&mut world), BEFORE);
    }
    restart(&mut world, 2, NEW);
    let epoch = world.status().map_epoch;
    assert_eq!(upgrade(&mut world), upgraded(BEFORE, NOW));
    world.settle();
    assert!(world.status().map_epoch > epoch, "it is a change of the map");
    assert_eq!([1, 2, 3].map(|node| uses(&mut world, node)), [Some(NOW); 3]);
    let epoch = world.status().map_epoch;
    assert_eq!(upgrade(&mut world), upgraded(NOW, NOW));
    assert_eq!(world.status().map_epoch, epoch, "nothing to be done");
    restart(&mut world, 1, NEW);
    assert_eq!(version(&mut world), NOW, "it is written down");
}

#[test]
fn a_member_that_is_down_holds_the_version_back_until_it_is_forgotten() {
    let mut world = old_cluster(3, &[NEW, NEW, OLD]);
    world.kill_node(3);
    world.run_for(5_000_000);
    assert!(refused(&upgrade(&mut world)).contains("10.0.0.3:7000"));
    let forgotten = world.ask(1, Request::Forget { node: NodeName::Id(node_id(3)) });
    assert!(matches!(forgotten, Reply::Forgotten { .. }), "{forgotten:?}");
    assert_eq!(upgrade(&mut world), upgraded(BEFORE, NOW));
}

#[test]
fn a_program_that_does_not_speak_the_clusters_version_is_not_let_in() {
    let mut world = World::of_builds(4, &[NEW, NEW, NEW]);
    // A restart is a join, and a refused one does not void the incarnation before it.
    let program =
        |lowest, highest| Speaks { lowest: ProtocolVersion(lowest), highest: ProtocolVersion(highest) };
    for (speaks, told) in [
        (program(3, 3), "this program version 3 only: start the node with a newer program"),
        (program(5, 6), "this program versions 5 to 6: start the node with an older program"),
    ] {
        restart(&mut world, 3, speaks);
        assert!(!world.node(3).uses_map());
        let why = world.node(3).refused.clone().expect("it is told why");
        assert!(why.contains("speaks version 4") && why.contains(told), "{why}");
    }
    restart(&mut world, 3, NEW);
    assert!(world.node(3).uses_map());
}

/// Each step of a migration uses the version that both of its nodes write in.
#[test]
fn a_migration_keeps_the_version_that_it_began_in() {
    let mut world = old_cluster(5, &[NEW, NEW, NEW]);
    let versions = |world: &mut World| {
        let data = world.coordinator().data().clone();
        [1, 2].map(|id| data.migration(MigrationId(id)).map(|record| record.version))
    };
    world.node(2).stalled = true;
    world.request(3, World::start(chunks(4, 9), 2));
    world.request(3, World::start(chunks(10, 11), 2));
    assert!(world.run_until(10_000_000, |world| world.runs(1)));
    assert_eq!(upgrade(&mut world), upgraded(BEFORE, NOW));
    world.run_for(1_000_000);
    assert_eq!(versions(&mut world), [Some(BEFORE), Some(BEFORE)], "one runs, one is queued");
    world.node(2).stalled = false;
    world.settle();
    assert_eq!(world.migration(1).map(|status| status.state), Some("done".to_owned()));
    assert_eq!(versions(&mut world), [Some(BEFORE), Some(NOW)], "the other began in the cluster's");
}

#[test]
fn nobody_hears_of_a_version_that_is_not_written_down() {
    let mut world = old_cluster(6, &[NEW, NEW]);
    world.fail_commits(Some(CommitFailure::NotWritten));
    assert!(matches!(upgrade(&mut world), Reply::Refused(Refusal::NotCommitted { .. })));
    world.run_for(3_000_000);
    assert_eq!([1, 2].map(|node| uses(&mut world, node)), [Some(BEFORE); 2]);
    world.fail_commits(None);
    assert_eq!(upgrade(&mut world), upgraded(BEFORE, NOW));
}

/// The keys of the objects in a JSON text.
fn keys(text: &str) -> BTreeSet<String> {
    fn collect(value: &serde_json::Value, keys: &mut BTreeSet<String>) {
        match value {
            serde_json::Value::Object(object) => object.iter().for_each(|(key, value)| {
                keys.insert(key.clone());
                collect(value, keys);
            }),
            serde_json::Value::Array(list) => list.iter().for_each(|value| collect(value, keys)),
            _ => {}
        }
    }
    let mut keys = BTreeSet::new();
    collect(&serde_json::from_str(text).expect("JSON"), &mut keys);
    keys
}

/// How often the coordinator's record has these keys, as text.
fn written(world: &mut World) -> [usize; 2] {
    let committed = world.coordinator().meta().committed().expect("it has a record");
    let text = serde_json::to_string(committed).expect("plain data");
    [r#""version":"#, r#""speaks":"#].map(|key| text.matches(key).count())
}

/// The earlier program reads no key but these: it refuses what it does not know.
#[test]
fn what_is_written_in_the_unsaid_version_has_no_field_that_an_earlier_program_does_not_know() {
    let mut world = old_cluster(7, &[NEW, NEW, NEW]);
    assert_eq!(written(&mut world), [0, 0]);
    world.request(3, World::start(chunks(4, 9), 2));
    assert!(world.run_until(10_000_000, |world| world.runs(1)));
    assert_eq!(written(&mut world), [0, 0], "with a migration that runs");
    let map = serde_json::to_string(world.coordinator().map()).expect("plain data");
    assert!(keys(&map).is_disjoint(&["version", "speaks"].map(str::to_owned).into()), "{map}");
    world.settle();
    restart(&mut world, 1, NEW);
    assert_eq!(written(&mut world), [0, 0], "with one that is over");
    let starts = serde_json::to_string(&world.coordinator().data().starts).expect("plain data");
    assert_eq!(keys(&starts), ["incarnation", "node", "start"].map(str::to_owned).into());
    assert_eq!(upgrade(&mut world), upgraded(BEFORE, NOW));
    assert_eq!(written(&mut world), [1, 3], "of the map, and of each member");
}

/// A record of the unsaid version names nothing that a member speaks, whoever wrote it.
#[test]
fn what_the_record_does_not_name_is_asked_of_who_is_up_and_learnt_of_others_when_they_start() {
    let mut world = old_cluster(8, &[NEW, NEW, NEW]);
    let spoken = |world: &mut World| world.status().nodes.iter().map(|node| node.speaks).collect::<Vec<_>>();
    world.kill_node(3);
    world.kill_coordinator();
    world.start_coordinator();
    assert_eq!(spoken(&mut world), [None; 3], "nobody has been heard of");
    world.run_for(3_000_000);
    assert_eq!(spoken(&mut world), [Some(NEW), Some(NEW), None]);
    assert_eq!([1, 2].map(|node| uses(&mut world, node)), [Some(BEFORE); 2], "they serve on");
    let why = refused(&upgrade(&mut world));
    let told = "the cluster stays at version 3: the coordinator does not know yet what 1 of its nodes speaks: \
                10.0.0.3:7000";
    assert!(why.starts_with(told) && why.contains("Start what is down again"), "{why}");
    assert_eq!(version(&mut world), BEFORE);
    world.start_node(3);
    world.run_for(3_000_000);
    assert_eq!(spoken(&mut world), [Some(NEW); 3]);
    assert_eq!(upgrade(&mut world), upgraded(BEFORE, NOW));
    // From here on the record names it.
    world.kill_node(3);
    restart(&mut world, 1, NEW);
    assert_eq!(spoken(&mut world), [Some(NEW); 3]);
}

#[test]
fn a_member_of_an_earlier_program_that_is_asked_again_holds_the_version_back() {
    let mut world = old_cluster(9, &[NEW, OLD, NEW]);
    world.kill_coordinator();
    world.start_coordinator();
    world.run_for(3_000_000);
    let why = refused(&upgrade(&mut world));
    assert!(why.contains("not speak version 4: 10.0.0.2:7000"), "{why}");
}

/// Its members could follow, and the next start of the coordinator could not read its record.
#[test]
fn a_version_is_not_raised_above_what_the_coordinators_own_program_speaks() {
    let next = Speaks { lowest: NOW, highest: ProtocolVersion(NOW.0 + 1) };
    let mut world = World::of_builds(10, &[NEW, NEW]);
    [2, 1].into_iter().for_each(|node| restart(&mut world, node, next));
    // The earlier program is back, and its node has not joined yet.
    world.kill_node(1);
    world.node(1).speaks = NEW;
    world.kill_coordinator();
    world.start_coordinator();
    world.run_for(1_000_000);
    assert_eq!(world.status().nodes.iter().map(|node| node.speaks).collect::<Vec<_>>(), [Some(next); 2]);
    let why = refused(&upgrade(&mut world));
    assert!(why.contains("stays at version 4") && why.contains("10.0.0.1:7000"), "{why}");
    assert_eq!(version(&mut world), NOW);
}

/// A record of a later version may lack it all the same.
#[test]
fn what_a_member_speaks_is_written_down_when_it_joins_again() {
    let mut world = World::of_builds(11, &[NEW, NEW]);
    let mut data = world.coordinator().data().clone();
    data.starts.iter_mut().for_each(|known| known.speaks = None);
    let mut store = MemoryMetaStore::new();
    store.commit(&data).expect("it does not fail");
    let founding = Founding { cluster: data.cluster, first: info(1, 1), start: start_of(1), speaks: NEW };
    let mut coordinator =
        Coordinator::open(MonotonicUs(1), store, founding, read_protocol).expect("it is sound");
    let says = |body| ToCoordinator { from: node_id(2), incarnation: Incarnation(1), body };
    let mut answers = |body| {
        coordinator.handle(MonotonicUs(2), CoordinatorInput::Message(says(body)));
        let sent: Vec<_> = std::iter::from_fn(|| coordinator.poll_transmit()).map(|sent| sent.body).collect();
        (sent, coordinator.meta().committed().expect("it is there").starts[1].speaks)
    };
    let (sent, recorded) = answers(NodeSays::Heartbeat(Heartbeat::default()));
    assert!(sent.contains(&CoordinatorSays::JoinAgain) && recorded.is_none(), "{sent:?}");
    let NodeInfo { client_addr, bus_addr, .. } = info(2, 1);
    let start = Some(start_of(1));
    let (sent, recorded) =
        answers(NodeSays::Join { client_addr, bus_addr, cluster: None, start, speaks: NEW, log_since: None });
    assert!(sent.iter().any(|sent| matches!(sent, CoordinatorSays::Welcome { .. })), "{sent:?}");
    assert_eq!(recorded, Some(NEW));
    let (sent, _) = answers(NodeSays::Heartbeat(Heartbeat::default()));
    assert!(!sent.contains(&CoordinatorSays::JoinAgain), "it is asked once");
}

/// A coordinator's record from before versions were stored.
const WITHOUT_VERSIONS: &str = r#"{
    "cluster": "000000000000000000000000000000c1",
    "map": {
        "epoch": 4,
        "nodes": [{
            "id": "0101010101010101010101010101010101010101", "incarnation": 1,
            "client_addr": "10.0.0.1:7000", "bus_addr": "10.0.0.1:17000"
        }],
        "tablets": [{
            "range": ["0x0000000000000000", "0xffffffffffffffff"],
            "owner": "0101010101010101010101010101010101010101", "epoch": 1
        }],
        "migrations": []
    },
    "waiting": [], "history": [], "next_migration": 1,
    "starts": [{ "node": "0101010101010101010101010101010101010101", "incarnation": 1, "start": 101 }]
}"#;

fn open(data: &Metadata, speaks: Speaks) -> (Result<(), String>, Metadata) {
    let mut store = MemoryMetaStore::new();
    store.commit(data).expect("it does not fail");
    let founding =
        Founding { cluster: ClusterId::from_bits(1), first: info(1, 1), start: start_of(1), speaks };
    let opened = Coordinator::open(MonotonicUs(1), store.clone(), founding, read_protocol);
    let kept = store.committed().cloned().expect("it is there");
    (opened.map(|_| ()).map_err(|error| error.to_string()), kept)
}

#[test]
fn what_was_kept_before_versions_were_written_down_is_in_the_first_and_is_written_as_it_was() {
    let data: Metadata = serde_json::from_str(WITHOUT_VERSIONS).expect("it is read");
    assert_eq!(data.map.version(), ProtocolVersion::UNSAID);
    let again = serde_json::to_value(&data).expect("plain data");
    assert_eq!(again, serde_json::from_str::<serde_json::Value>(WITHOUT_VERSIONS).expect("JSON"));
    assert_eq!(open(&data, NEW), (Ok(()), data.clone()));
    assert_eq!(open(&data, OLD), (Ok(()), data));
}

#[test]
fn a_coordinator_takes_out_of_the_record_what_its_version_has_no_field_for() {
    let mut data: Metadata = serde_json::from_str(WITHOUT_VERSIONS).expect("it is read");
    data.starts[0].speaks = Some(NEW);
    let mut store = MemoryMetaStore::new();
    store.commit(&data).expect("it does not fail");
    let founding = Founding { cluster: data.cluster, first: info(1, 1), start: start_of(1), speaks: NEW };
    let coordinator = Coordinator::open(MonotonicUs(1), store, founding, read_protocol).expect("it is sound");
    assert_eq!(coordinator.data().starts[0].speaks, None, "the next commit does not write it");
    assert_eq!(coordinator.report(MonotonicUs(1)).nodes[0].speaks, Some(NEW), "and it is known");
}

#[test]
fn a_coordinator_does_not_open_what_is_in_a_version_that_it_does_not_speak() {
    let later = ProtocolVersion(NOW.0 + 1);
    let map = TabletMap::founded_by(info(1, 1)).in_version(later);
    let data = Metadata::new(ClusterId::from_bits(1), map);
    let (opened, kept) = open(&data, NEW);
    let why = opened.expect_err("it is not opened");
    assert!(why.contains("speaks version 5") && why.contains("a newer program"), "{why}");
    assert_eq!(kept, data, "nothing is lost");
}
