//! Keys that clients access often are given first, by what the node's workers count.

use crate::common::*;
use sidle_node::testing::ClusterSetup;
use sidle_resp::Value;
use sidle_types::MigrationId;

const PROTOCOL: &str = "handoff,cut-period=1000000";

/// A cluster with keys whose workers have been idle for a second, and so sample every request.
fn scene() -> Scene {
    let mut scene = Scene::of(ClusterSetup { nodes: 2, ..ClusterSetup::default() });
    scene.fill(keys("key", 200));
    (0..3).for_each(|_| pass_second(&mut scene));
    scene
}

fn pass_second(scene: &mut Scene) {
    scene.cluster.run_for(1_000_000);
    let now = scene.cluster.now().mono;
    for node in &mut scene.cluster.nodes {
        node.workers.iter_mut().for_each(|worker| worker.hand_over_heat(now));
    }
}

/// What was accessed six seconds ago is hot no more.
fn forget_writes(scene: &mut Scene) {
    (0..6).for_each(|_| pass_second(scene));
}

/// Clients of the source read one key in twenty, three times.
fn access(scene: &mut Scene) {
    for key in keys("key", 200).iter().step_by(20) {
        for _ in 0..3 {
            assert_eq!(scene.ask(0, &format!("GET {key}")), bulk(&format!("old-{key}")));
        }
    }
}

/// Starts it, and keeps back what is copied.
fn start(scene: &mut Scene, protocol: &str) -> MigrationId {
    scene.cluster.network.hold_bulk = true;
    let id = scene.start_by(protocol, "SLOTS 0-16383", 1);
    scene.cluster.run_for(20_000);
    id
}

/// Which keys are the target's.
fn given(scene: &Scene, id: MigrationId) -> Vec<String> {
    let table = scene.cluster.nodes[1].workers[0].ranges();
    let view = table.import(id).expect("it is under way");
    keys("key", 200).into_iter().filter(|key| view.has_arrived(position(key))).collect()
}

fn accessed() -> Vec<String> {
    keys("key", 200).into_iter().step_by(20).collect()
}

#[test]
fn what_clients_read_before_the_migration_is_given_at_once() {
    let mut scene = scene();
    forget_writes(&mut scene);
    access(&mut scene);
    pass_second(&mut scene);
    let id = start(&mut scene, PROTOCOL);
    assert_eq!(given(&scene, id), accessed());
    assert_eq!(scene.ask(0, "GET key20"), moved("key20", 1), "it is the target's");
    assert_eq!(scene.ask(1, "APPEND key20 +"), int(10));
    assert_eq!(scene.ask(0, "APPEND key21 +"), int(10), "it is the source's");
    scene.finish(id);
    let Value::Bulk(info) = scene.ask(1, "INFO") else { panic!("no text") };
    let info = String::from_utf8(info).expect("text");
    let hinted = info.lines().find_map(|line| line.strip_prefix("migration_hinted:"));
    assert_eq!(hinted, Some("10"), "but none that a command had waited for");
    assert_eq!(scene.ask(1, "GET key20"), bulk("old-key20+"));
    assert_eq!(scene.ask(1, "GET key21"), bulk("old-key21+"));
    assert_eq!(scene.ask(1, "DBSIZE"), int(200));
}

#[test]
fn what_clients_read_in_the_middle_is_given_out_of_turn() {
    let mut scene = scene();
    forget_writes(&mut scene);
    let id = start(&mut scene, PROTOCOL);
    assert_eq!(given(&scene, id), [""; 0]);
    access(&mut scene);
    scene.cluster.run_for(20_000);
    assert_eq!(given(&scene, id), accessed());
    assert!(matches!(scene.ask(0, "GET key20"), Value::Error(_)));
    scene.finish(id);
    assert_eq!(scene.ask(1, "DBSIZE"), int(200));
}

#[test]
fn with_hot_first_off_nothing_is_given_out_of_turn() {
    let mut scene = scene();
    forget_writes(&mut scene);
    access(&mut scene);
    pass_second(&mut scene);
    let id = start(&mut scene, &format!("{PROTOCOL},hot-first=off"));
    access(&mut scene);
    scene.cluster.run_for(20_000);
    assert_eq!(given(&scene, id), [""; 0]);
    scene.finish(id);
    assert_eq!(scene.ask(1, "DBSIZE"), int(200));
}
