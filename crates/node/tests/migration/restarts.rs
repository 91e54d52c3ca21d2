//! A node that restarts part-way has lost its data. Losses are reported, and the rest is served.

use crate::common::*;
use sidle_resp::Value;

#[test]
fn the_target_restarts() {
    let mut scene = Scene::new();
    scene.fill(keys("key", 100));
    let id = scene.start_and_hold("SLOTS 0-8191", 1);
    scene.cluster.restart(1);
    scene.cluster.network.release();
    scene.cluster.run_for(5_000_000);
    assert_eq!(scene.state(id), "failed");
    scene.to[1] = scene.cluster.connect(1, 0);
    // bar is in slot 5061: the target's part is lost, and the source may be outdated.
    assert_eq!(scene.ask(1, "SET bar new"), ok(), "the range is served");
    assert_eq!(scene.ask(1, "GET bar"), bulk("new"));
    assert_eq!(scene.ask(0, "GET bar"), moved("bar", 1));
    scene.cluster.run_for(2_000_000);
    let left = scene.ask(0, "DBSIZE");
    assert_eq!(
        scene.cluster.nodes[0].parts.store.len(),
        match left {
            Value::Integer(left) => left as u64,
            other => panic!("{other:?}"),
        }
    );
}

#[test]
fn the_source_restarts() {
    let mut scene = Scene::new();
    scene.fill(keys("key", 100));
    let id = scene.start_and_hold("SLOTS 0-16383", 1);
    assert_eq!(scene.ask(1, "GET key1"), bulk("old-key1"), "this one has arrived");
    let waits = scene.cluster.connect(1, 1);
    scene.cluster.network.hold_priority = true;
    scene.cluster.send(waits, "GET key2");
    scene.cluster.run_for(1_000);
    scene.cluster.restart(0);
    scene.cluster.network.release();
    scene.cluster.run_for(5_000_000);
    scene.to[0] = scene.cluster.connect(0, 0);
    assert_eq!(scene.state(id), "failed");
    assert_eq!(scene.cluster.reply(waits), Value::Null, "the range's only copy is gone");
    assert_eq!(scene.ask(1, "GET key1"), bulk("old-key1"));
    assert_eq!(scene.ask(1, "INCR number"), int(1));
    assert_eq!(scene.cluster.nodes[1].parts.store.tombstones_in(sidle_types::PositionRange::ALL), 0);
    assert!(!scene.cluster.nodes[1].notes.is_empty(), "the operator is notified");
}

#[test]
fn a_restarted_node_joins_again_and_takes_part() {
    let mut scene = Scene::new();
    scene.fill(keys("key", 50));
    scene.cluster.restart(1);
    scene.cluster.run_for(2_000_000);
    scene.to[1] = scene.cluster.connect(1, 0);
    let id = scene.start("SLOTS 0-16383", 1);
    scene.finish(id);
    assert_eq!(scene.ask(1, "DBSIZE"), int(50));
}
