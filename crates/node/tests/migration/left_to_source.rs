//! Large collections of a range that is given bit by bit: the source serves them until their turn comes, also
//! for clients that ask the target.

use crate::common::*;
use sidle_migration::ImportView;
use sidle_node::testing::{ClusterSetup, LATENCY_US, TestCluster};
use sidle_resp::Value;
use sidle_types::{MigrationId, Position};
use std::sync::Arc;

const FIELDS: usize = 400;

/// A migration of a large hash and some strings in its middle: nothing is copied, since bulk frames are held.
fn held(scene: &mut Scene) -> (MigrationId, Arc<ImportView>) {
    let long = "x".repeat(1_000);
    for field in 0..FIELDS {
        assert_eq!(scene.ask(0, &format!("HSET large {field} {long}")), int(1));
    }
    scene.fill(keys("key", 20));
    scene.cluster.network.hold_bulk = true;
    let id = scene.start_by("handoff", "SLOTS 0-16383", 1);
    let view = |scene: &Scene| scene.cluster.nodes[1].workers[0].ranges().import(id).cloned();
    scene.cluster.run_until("it runs", |cluster| cluster.nodes[1].workers[0].ranges().import(id).is_some());
    // The source has named nothing yet.
    assert!(!view(scene).expect("it runs").is_left_to_source(large()));
    assert_eq!(scene.ask(1, "HSTRLEN large 0"), int(1_000));
    scene.cluster.run_for(50_000);
    let view = view(scene).expect("it runs");
    assert!(view.is_left_to_source(large()) && !view.is_left_to_source(Position::of_key(b"key1")));
    (id, view)
}

fn large() -> Position {
    Position::of_key(b"large")
}

#[test]
fn a_command_over_one_is_carried_out_at_the_source() {
    let mut scene = Scene::new();
    let (id, view) = held(&mut scene);
    assert_eq!(scene.ask(1, "HLEN large"), int(FIELDS as i64));
    assert_eq!(scene.ask(1, "HSET large new 1"), int(1));
    assert_eq!(scene.ask(0, "HGET large new"), bulk("1"));
    assert_eq!(scene.ask(1, "GET key1"), bulk("old-key1"), "others are taken");
    assert!(view.has_arrived(Position::of_key(b"key1")) && !view.has_arrived(large()));
    scene.finish(id);
    assert_eq!(scene.ask(1, "HINCRBY large new 1"), int(2));
    assert_eq!(scene.ask(1, "HLEN large"), int(FIELDS as i64 + 1));
    assert_eq!(scene.ask(0, "HLEN large"), moved("large", 1));
}

#[test]
fn commands_that_need_it_here_have_it_given() {
    for request in ["EXISTS large key1", "TOUCH key2 large"] {
        let mut scene = Scene::new();
        let (id, view) = held(&mut scene);
        assert_eq!(scene.ask(1, request), int(2));
        assert!(view.has_arrived(large()), "{request}");
        scene.finish(id);
        assert_eq!(scene.ask(1, "HLEN large"), int(FIELDS as i64));
    }
    let mut scene = Scene::new();
    let (id, view) = held(&mut scene);
    for request in ["MULTI", "HSET large new 1"] {
        scene.ask(1, request);
    }
    assert_eq!(scene.ask(1, "EXEC"), Value::Array(vec![int(1)]));
    assert!(view.has_arrived(large()));
    scene.finish(id);
    assert_eq!(scene.ask(1, "HLEN large"), int(FIELDS as i64 + 1));
}

/// Looking again now and then would find it later.
#[test]
fn what_is_in_transit_is_waited_for_here() {
    let mut scene = Scene::new();
    let (id, view) = held(&mut scene);
    let other = scene.cluster.connect(1, 0);
    scene.cluster.send(other, "EXISTS large key1");
    // The source has given it, and nothing of it has been delivered.
    let keeps = |scene: &Scene| {
        let source = scene.cluster.nodes[0].workers[0].ranges();
        let views: Vec<_> = source.exports().map(|view| view.kept()).collect();
        views.iter().any(|kept| kept.has(large()))
    };
    while keeps(&scene) {
        scene.cluster.run_for(LATENCY_US / 4);
    }
    scene.cluster.network.hold_priority = true;
    scene.cluster.send(scene.to[1], "HSET large new 1");
    scene.cluster.run_for(1_000);
    assert!(!view.has_arrived(large()) && scene.cluster.reply_now(scene.to[1]).is_none());
    scene.cluster.network.release();
    let before = scene.cluster.now();
    assert_eq!(scene.cluster.reply(scene.to[1]), int(1));
    assert!(scene.cluster.now().mono.since(before.mono) < 2_000, "it is woken");
    scene.finish(id);
    assert_eq!(scene.ask(1, "HGET large new"), bulk("1"));
}

/// A transaction at a target that has no memory for the collection fails, and the source serves on.
#[test]
fn one_that_does_not_fit_stays_where_it_is() {
    let memory_bytes = vec![64 << 20, 16 << 20, 0];
    let mut scene = Scene::of(ClusterSetup { memory_bytes, ..ClusterSetup::default() });
    let long = "x".repeat(1_000);
    let grow = |scene: &mut Scene, from: usize, to: usize| {
        for first in (from..to).step_by(100) {
            let fields: Vec<String> = (first..first + 100).map(|field| format!("{field} {long}")).collect();
            assert_eq!(scene.ask(0, &format!("HSET large {}", fields.join(" "))), int(100));
        }
    };
    grow(&mut scene, 0, FIELDS);
    scene.cluster.network.hold_bulk = true;
    let id = scene.start_by("handoff", "SLOTS 0-16383", 1);
    let import = |cluster: &TestCluster| cluster.nodes[1].workers[0].ranges().import(id).cloned();
    scene.cluster.run_until("it is named", |cluster| {
        import(cluster).is_some_and(|view| view.is_left_to_source(large()))
    });
    grow(&mut scene, FIELDS, 20_000);
    for _ in 0..3 {
        for request in ["MULTI", "HSET large new 1"] {
            scene.ask(1, request);
        }
        let Value::Error(refusal) = scene.ask(1, "EXEC") else { panic!("it fits") };
        assert!(refusal.contains("OOM"), "{refusal}");
        for node in [0, 1] {
            assert_eq!(scene.ask(node, "HLEN large"), int(20_000));
        }
    }
    let view = import(&scene.cluster).expect("it runs");
    assert!(!view.has_arrived(large()));
}
