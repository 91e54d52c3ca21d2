//! Nodes with durable logs restart while a hand-off turns back, and on its way back.

use crate::common::*;
use crate::durable::{change_five, check_five, log_of, restart, scene};
use sidle_resp::Value;
use sidle_types::{MigrationId, PositionRange};

/// A hand-off of 300 keys from node 0 to node 1, of which much is given, and much is not.
fn in_the_middle() -> (Scene, MigrationId) {
    let mut scene = scene();
    scene.fill(keys("key", 300));
    let by = "handoff,cut-period=1000,cut-bytes=1000,hot-first=off";
    let id = scene.start_by(by, "SLOTS 0-16383", 1);
    scene.cluster.run_until("much is given", |cluster| {
        let table = cluster.nodes[1].workers[0].ranges();
        let given = table.import(id).map(|view| view.owned());
        let has = |key: &String| given.as_ref().is_some_and(|given| given.has(position(key)));
        keys("key", 300).iter().filter(|key| has(key)).count() > 100
    });
    (scene, id)
}

fn cancel(scene: &mut Scene, id: MigrationId) {
    let reply = scene.ask(0, &format!("SIDLE.MIGRATE CANCEL {id}"));
    assert!(matches!(reply, Value::Integer(_)), "{reply:?}");
}

/// Runs until nothing moves; which node has the range.
fn settle(scene: &mut Scene) -> usize {
    scene.cluster.run_until("nothing moves", |cluster| {
        let table = cluster.nodes[0].workers[0].ranges();
        table.map().migrations().is_empty() && table.imports().next().is_none()
    });
    scene.cluster.run_for(1_000_000);
    let first = &scene.cluster.nodes[0];
    let owner = first.workers[0].ranges().map().owner_of(PositionRange::ALL.first());
    usize::from(owner != first.control.me().id)
}

/// A hand-off turns back, and these nodes restart, one after the other, at every moment of its turn and of
/// its way back.
#[test]
fn a_node_that_restarts_on_the_way_back_loses_nothing() {
    for nodes in [&[0][..], &[1], &[0, 1], &[1, 0], &[0, 0, 1, 1]] {
        let (mut before, mut behind) = (0, 0);
        for at_us in (0..400).step_by(25).chain((400..12_000).step_by(600)) {
            let (mut scene, id) = in_the_middle();
            let is_changed_before = at_us % 50 == 0;
            if is_changed_before {
                change_five(&mut scene);
            }
            cancel(&mut scene, id);
            scene.cluster.run_for(at_us);
            if !is_changed_before {
                change_five(&mut scene);
            }
            let map = scene.cluster.nodes[1].workers[0].ranges().map().clone();
            match map.migrations().first().map(|record| record.continues) {
                Some(None) => before += 1,
                Some(Some(_)) => behind += 1,
                None => {}
            }
            for &node in nodes {
                restart(&mut scene, node);
            }
            let owner = settle(&mut scene);
            check_five(&mut scene, owner, 299, &format!("{nodes:?}, {at_us} us"));
            assert_eq!(scene.cluster.nodes[1 - owner].parts.store.len(), 0);
            for (number, node) in scene.cluster.nodes.iter().enumerate() {
                assert_eq!(node.parts.store.noted_imports(), [], "{nodes:?}, {at_us} us, at node {number}");
            }
        }
        assert!(before > 3 && behind > 3, "{nodes:?}: {before} before the turn, {behind} on the way back");
    }
}

/// A story of a named fault: one node's disk syncs nothing while a migration is to turn back, and then it
/// loses its power.
pub(crate) fn turn_with_a_log_that_is_not_synced() {
    for node in [0, 1] {
        let (mut scene, id) = in_the_middle();
        log_of(&mut scene, node).holds_syncs = true;
        cancel(&mut scene, id);
        scene.cluster.run_for(2_000_000);
        scene.cluster.lose_power(node);
        log_of(&mut scene, node).holds_syncs = false;
        scene.cluster.run_for(3_000_000);
        scene.to[node] = scene.cluster.connect(node, 0);
        let owner = settle(&mut scene);
        assert_eq!(owner, 1, "C10, C12: it has not turned back, and goes on");
        assert_eq!(scene.ask(owner, "DBSIZE"), int(300), "{node}");
        assert_eq!(scene.ask(owner, "GET key5"), bulk("old-key5"));
    }
}

#[test]
fn a_turn_is_synced_first() {
    turn_with_a_log_that_is_not_synced();
}

#[test]
fn a_node_that_loses_its_power_on_the_way_back_loses_nothing() {
    for node in [0, 1] {
        let (mut scene, id) = in_the_middle();
        cancel(&mut scene, id);
        scene.cluster.run_until("it has turned", |cluster| {
            let table = cluster.nodes[1].workers[0].ranges();
            table.map().migrations().iter().any(|record| record.continues.is_some())
        });
        scene.cluster.lose_power(node);
        scene.cluster.run_for(3_000_000);
        scene.to[node] = scene.cluster.connect(node, 0);
        assert_eq!(settle(&mut scene), 0);
        assert_eq!(scene.ask(0, "DBSIZE"), int(300), "{node}");
    }
}
