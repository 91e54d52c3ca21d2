//! A cluster's version: who may join, when it is raised, and what a migration does meanwhile.

use crate::world::{World, chunks, info, node_id, read_protocol, start_of};
use sidle_cluster::{
    ClusterId, CommitFailure, Coordinator, Founding, MemoryMetaStore, MetaStore, Metadata, NodeName, Refusal,
    Reply, Request, TabletMap, Upgraded,
};
use sidle_types::{MigrationId, MonotonicUs, ProtocolVersion, Speaks};

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
        assert_eq!(status.nodes.iter().map(|node| node.speaks).collect::<Vec<_>>(), [program, NEW]);
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
    assert_eq!((data.map.version(), data.speaks_of(node_id(1))), (ProtocolVersion::UNSAID, Speaks::UNSAID));
    let again = serde_json::to_value(&data).expect("plain data");
    assert_eq!(again, serde_json::from_str::<serde_json::Value>(WITHOUT_VERSIONS).expect("JSON"));
    assert_eq!(open(&data, NEW), (Ok(()), data.clone()));
    assert_eq!(open(&data, OLD), (Ok(()), data));
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
