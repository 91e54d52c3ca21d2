//! A range that is copied while its source serves it: the copy is invisible, and leaves no trace if it ends
//! before the commit.

use crate::common::*;
use sidle_cluster::CoordinatorSays;
use sidle_migration::{FULVA, SOURCE_DRIVEN};
use sidle_node::testing::ClusterSetup;
use sidle_resp::Value;
use sidle_types::PositionRange;

const EVERYTHING: &str = "SLOTS 0-16383";

/// Nothing is kept for any migration, and node 1 holds nothing.
fn assert_no_trace(scene: &mut Scene) {
    scene.cluster.run_for(2_000_000);
    for (index, node) in scene.cluster.nodes.iter().enumerate() {
        let in_hand: Vec<_> =
            node.control.in_hand().into_iter().filter(|(what, _)| !what.contains("request")).collect();
        assert_eq!(in_hand, [], "node {index}");
        assert_eq!(node.movers_in_hand(), [], "node {index}");
    }
    let copy = &scene.cluster.nodes[1].parts.store;
    assert_eq!((copy.len(), copy.tombstones_in(PositionRange::ALL)), (0, 0), "the copy's memory is back");
    assert!(scene.cluster.nodes[0].workers.iter().all(|worker| worker.ranges().owns_everything()));
}

#[test]
fn everything_that_changes_while_it_is_copied_arrives() {
    for_protocols_that(copies_ahead, 2, |mut scene| {
        scene.fill(keys("key", 200));
        let id = scene.copy_and_hold(EVERYTHING, 1);
        assert_eq!(scene.state(id), "preparing");
        for request in
            ["SET key1 new", "APPEND key2 +", "MSET {a}1 x {a}2 y", "SETEX key4 1000 v", "INCR counter"]
        {
            assert!(!matches!(scene.ask(0, request), Value::Error(_)), "{request}");
        }
        assert_eq!(scene.ask(0, "DEL key3"), int(1));
        assert_eq!(scene.ask(0, "GETDEL key5"), bulk("old-key5"));
        assert_eq!(scene.ask(1, "GET key1"), moved("key1", 0), "the source owns it");
        scene.finish(id);
        assert_eq!(scene.state(id), "done");
        let expected = [
            ("key1", bulk("new")),
            ("key2", bulk("old-key2+")),
            ("key3", Value::Null),
            ("key5", Value::Null),
            ("key6", bulk("old-key6")),
            ("{a}2", bulk("y")),
            ("counter", bulk("1")),
        ];
        for (key, value) in expected {
            assert_eq!(scene.ask(1, &format!("GET {key}")), value, "{key}");
        }
        assert!(matches!(scene.ask(1, "TTL key4"), Value::Integer(990..=1000)));
        assert_eq!(scene.ask(1, "DBSIZE"), int(201));
        assert_eq!(scene.cluster.nodes[0].parts.store.len(), 0);
        assert!(scene.cluster.nodes.iter().all(|node| node.control.in_hand().is_empty()));
    });
}

/// A client of the target never sees keys that the target does not own.
#[test]
fn the_copy_is_not_the_targets_to_show() {
    for_protocols_that(copies_ahead, 2, |mut scene| {
        scene.fill(keys("key", 100));
        // Sent records are copied, and the last round is held back.
        let id = scene.start_by(&format!("{},few=0,rounds=1000", scene.protocol.name), EVERYTHING, 1);
        scene.cluster.run_until("something is copied", |cluster| !cluster.nodes[1].parts.store.is_empty());
        assert_eq!(scene.ask(1, "DBSIZE"), int(0));
        assert_eq!(scene.ask(1, "KEYS *"), Value::Array(vec![]));
        assert_eq!(scene.ask(1, "RANDOMKEY"), Value::Null);
        assert_eq!(scene.ask(1, "SCAN 0"), Value::Array(vec![bulk("0"), Value::Array(vec![])]));
        assert_eq!(scene.ask(1, "FLUSHALL"), ok());
        scene.finish(id);
        assert_eq!(scene.ask(1, "DBSIZE"), int(100), "a flush of the target's own keys");
    });
}

#[test]
fn cancelled_while_it_is_copied() {
    for_protocols_that(copies_ahead, 2, |mut scene| {
        scene.fill(keys("key", 100));
        let id = scene.copy_and_hold(EVERYTHING, 1);
        assert_eq!(scene.ask(0, "SET key1 new"), ok());
        assert_eq!(scene.ask(0, &format!("SIDLE.MIGRATE CANCEL {id}")), ok());
        scene.cluster.network.release();
        assert_no_trace(&mut scene);
        assert_eq!(scene.state(id), "cancelled");
        assert_eq!(scene.ask(0, "GET key1"), bulk("new"));
        // And again, to the end.
        let id = scene.start(EVERYTHING, 1);
        scene.finish(id);
        assert_eq!(scene.ask(1, "GET key1"), bulk("new"));
        assert_eq!(scene.ask(1, "DBSIZE"), int(100));
    });
}

/// A source that does not know the end of an earlier copy marks changes for the later one.
#[test]
fn cancelled_and_copied_again_at_once() {
    for_protocols_that(copies_ahead, 3, |mut scene| {
        scene.fill(keys("key", 100));
        let first = scene.copy_and_hold(EVERYTHING, 1);
        let to = scene.to[0];
        scene.cluster.send(to, &format!("SIDLE.MIGRATE CANCEL {first}"));
        let start =
            format!("SIDLE.MIGRATE START SLOTS 0-16383 TO 127.0.0.1:7003 PROTOCOL {}", scene.protocol.name);
        scene.cluster.send(to, &start);
        assert_eq!(scene.cluster.reply(to), ok());
        let Value::Integer(second) = scene.cluster.reply(to) else { panic!("it is refused") };
        scene.cluster.run_for(20_000);
        assert_eq!(scene.ask(0, "SET key1 new"), ok());
        scene.finish(sidle_types::MigrationId(second as u64));
        assert_eq!(scene.ask(2, "GET key1"), bulk("new"));
        assert_eq!(scene.ask(2, "DBSIZE"), int(100));
    });
}

/// For the source the range is still an import, whose writes have no marks: it is tracked when the import
/// ends (C6).
#[test]
fn a_source_that_does_not_know_its_imports_end() {
    for_protocols_that(copies_ahead, 2, |mut scene| {
        scene.fill(keys("key", 100));
        let there = scene.start_by(FULVA.name, EVERYTHING, 1);
        scene
            .cluster
            .run_until("it runs", |cluster| cluster.nodes[1].workers[0].ranges().import(there).is_some());
        let is_map = |message: &CoordinatorSays| matches!(message, CoordinatorSays::MapUpdate { .. });
        scene.cluster.network.lose = Some((scene.cluster.nodes[1].info.id, is_map));
        scene.cluster.run_for(2_000_000);
        assert_eq!(scene.state(there), "done");
        let back = scene.start(EVERYTHING, 0);
        scene.cluster.run_for(2_000_000);
        assert!(scene.cluster.nodes[1].workers[0].ranges().import(there).is_some(), "it has no newer map");
        assert_eq!(scene.ask(1, "DEL key1"), int(1));
        assert_eq!(scene.ask(1, "SET key2 new"), ok());
        assert_eq!(scene.ask(0, &format!("SIDLE.MIGRATE SET {back} RATE 1000000")), ok());
        scene.cluster.network.lose = None;
        scene.finish(back);
        assert_eq!(scene.state(back), "done");
        assert_eq!(scene.ask(0, "GET key1"), Value::Null);
        assert_eq!(scene.ask(0, "GET key2"), bulk("new"));
        assert_eq!(scene.ask(0, "DBSIZE"), int(99));
    });
}

#[test]
fn the_source_restarts_while_it_is_copied() {
    for_protocols_that(copies_ahead, 2, |mut scene| {
        scene.fill(keys("key", 100));
        let id = scene.copy_and_hold(EVERYTHING, 1);
        scene.cluster.restart(0);
        scene.cluster.network.release();
        scene.cluster.run_for(5_000_000);
        scene.to[0] = scene.cluster.connect(0, 0);
        assert_eq!(scene.state(id), "failed");
        assert_no_trace(&mut scene);
        assert_eq!(scene.ask(0, "SET key1 again"), ok());
    });
}

#[test]
fn the_target_restarts_while_it_is_copied() {
    for_protocols_that(copies_ahead, 2, |mut scene| {
        scene.fill(keys("key", 100));
        let id = scene.copy_and_hold(EVERYTHING, 1);
        scene.cluster.restart(1);
        scene.cluster.network.release();
        scene.cluster.run_for(5_000_000);
        assert_eq!(scene.state(id), "failed");
        assert_no_trace(&mut scene);
        assert_eq!(scene.ask(0, "GET key1"), bulk("old-key1"), "nothing has changed");
        assert_eq!(scene.ask(0, "SET key1 new"), ok());
    });
}

/// After the commit the last changes are lost with the source. The copy may hold what they replaced, so none
/// of it is served, and the error reports that.
#[test]
fn the_source_restarts_before_the_last_round() {
    for_protocols_that(copies_ahead, 2, |mut scene| {
        scene.fill(keys("key", 100));
        // The copy is complete, and the freeze waits for a worker.
        let id = scene.start(EVERYTHING, 1);
        scene.cluster.nodes[0].held_workers = vec![1];
        scene
            .cluster
            .run_until("it runs", |cluster| cluster.nodes[1].workers[0].ranges().import(id).is_some());
        scene.cluster.restart(0);
        scene.cluster.run_for(5_000_000);
        scene.to[0] = scene.cluster.connect(0, 0);
        assert_eq!(scene.state(id), "failed");
        let Value::Bulk(status) = scene.ask(0, &format!("SIDLE.MIGRATE STATUS {id}")) else {
            panic!("no status")
        };
        let status = String::from_utf8(status).expect("JSON");
        assert!(status.contains("lost what the range held, about 100 records"), "{status}");
        assert_eq!(scene.ask(1, "GET key1"), Value::Null, "a copy that may be stale is worse than none");
        assert_eq!(scene.ask(1, "SET key1 again"), ok());
        assert!(scene.cluster.nodes[1].control.in_hand().is_empty());
    });
}

/// The same, and the target receives no map until all is over. It owns the range without a report that the
/// migration ran (C8).
#[test]
fn the_source_restarts_before_the_last_round_and_the_target_is_notified_late() {
    for_protocols_that(copies_ahead, 2, |mut scene| {
        scene.fill(keys("key", 100));
        let id = scene.start(EVERYTHING, 1);
        let is_map = |message: &CoordinatorSays| matches!(message, CoordinatorSays::MapUpdate { .. });
        scene.cluster.network.lose = Some((scene.cluster.nodes[1].info.id, is_map));
        scene.cluster.nodes[0].held_workers = vec![1];
        while scene.state(id) != "running" {
            scene.cluster.run_for(10_000);
        }
        scene.cluster.restart(0);
        scene.cluster.run_for(5_000_000);
        scene.to[0] = scene.cluster.connect(0, 0);
        assert_eq!(scene.state(id), "failed");
        assert_eq!(scene.cluster.nodes[1].parts.store.len(), 100, "it has no newer map");
        assert_eq!(scene.ask(1, "GET key1"), moved("key1", 0));
        scene.cluster.network.lose = None;
        scene.cluster.run_until("it has the range", |cluster| {
            let ranges = cluster.nodes[1].workers[0].ranges();
            ranges.owns_everything()
        });
        assert_eq!(scene.ask(1, "GET key1"), Value::Null, "a copy that may be stale is worse than none");
        assert_eq!(scene.ask(1, "SET key1 again"), ok());
        scene.cluster.run_for(2_000_000);
        assert_eq!(scene.ask(1, "GET key1"), bulk("again"));
        assert_eq!(scene.ask(1, "DBSIZE"), int(1));
        assert!(scene.cluster.nodes[1].control.in_hand().is_empty());
    });
}

/// A copy without memory waits, reports that, and can be given up.
#[test]
fn no_memory_for_the_copy() {
    let setup = ClusterSetup { memory_bytes: vec![64 << 20, 16 << 20, 0], ..ClusterSetup::default() };
    let mut scene = Scene { protocol: SOURCE_DRIVEN, ..Scene::of(setup) };
    scene.fill(keys("key", 10));
    let id = scene.copy_and_hold(EVERYTHING, 1);
    let value = "v".repeat(100_000);
    for n in 0..300 {
        assert_eq!(scene.ask(0, &format!("SET large{n} {value}")), ok());
    }
    scene.cluster.network.release();
    scene.cluster.run_for(3_000_000);
    let Value::Bulk(status) = scene.ask(0, &format!("SIDLE.MIGRATE STATUS {id}")) else {
        panic!("no status")
    };
    let status = String::from_utf8(status).expect("JSON");
    assert!(status.contains("preparing") && status.contains("out of memory"), "{status}");
    assert_eq!(scene.ask(0, &format!("SIDLE.MIGRATE CANCEL {id}")), ok());
    assert_no_trace(&mut scene);
    assert_eq!(scene.ask(0, "DBSIZE"), int(310));
}
