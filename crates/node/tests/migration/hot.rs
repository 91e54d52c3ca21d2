//! Keys that clients access often go first, by what the node's workers count: they are given first, or copied
//! before the freeze.

use crate::common::*;
use sidle_node::testing::ClusterSetup;
use sidle_resp::Value;
use sidle_types::{HashedKey, MigrationId};

const PROTOCOL: &str = "handoff,cut-period=1000000";

/// A cluster with keys whose workers have been idle for a second, and so sample every request.
fn scene() -> Scene {
    filled(ClusterSetup::default())
}

fn filled(setup: ClusterSetup) -> Scene {
    let mut scene = Scene::of(setup);
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

/// The protocols that freeze first and serve at once.
const FREEZE_FIRST: [&str; 3] = ["fulva,hot-first=on", "rocksteady,hot-first=on", "zephyr,hot-first=on"];

/// One key in twenty has been read; and a migration of everything has copied these.
pub(crate) fn copied_ahead(protocol: &str) -> (Scene, MigrationId) {
    copied_ahead_by(protocol, ClusterSetup::default())
}

pub(crate) fn copied_ahead_by(protocol: &str, setup: ClusterSetup) -> (Scene, MigrationId) {
    let mut scene = filled(setup);
    forget_writes(&mut scene);
    access(&mut scene);
    pass_second(&mut scene);
    scene.cluster.network.hold_bulk = true;
    let id = scene.start_by(protocol, "SLOTS 0-16383", 1);
    scene.cluster.run_until("it is copied", |cluster| cluster.nodes[1].parts.store.len() == 10);
    (scene, id)
}

pub(crate) fn run_until_frozen(scene: &mut Scene, id: MigrationId) {
    scene.cluster.run_until("the source is frozen", |cluster| {
        let table = cluster.nodes[1].workers[0].ranges();
        table.import(id).is_some_and(|view| view.source_is_frozen())
    });
}

fn has_copy(scene: &Scene, key: &str) -> bool {
    let guard = scene.cluster.nodes[1].parts.store.pin();
    guard.get(HashedKey::new(key.as_bytes())).value().is_some()
}

#[test]
fn what_clients_read_before_the_freeze_is_at_the_target_from_the_first_moment() {
    for protocol in FREEZE_FIRST {
        let (mut scene, id) = copied_ahead(protocol);
        assert_eq!(scene.ask(1, "DBSIZE"), int(0), "{protocol}: it is not the target's to show");
        assert_eq!(scene.ask(0, "DBSIZE"), int(200));
        run_until_frozen(&mut scene, id);
        for key in accessed() {
            assert!(has_copy(&scene, &key), "{protocol}: {key}");
            let to = scene.to[1];
            scene.cluster.send(to, &format!("APPEND {key} +"));
            assert_eq!(scene.cluster.reply_now(to), Some(int(key.len() as i64 + 5)), "{protocol}: {key}");
        }
        assert_eq!(scene.ask(1, "DBSIZE"), int(200));
        scene.finish(id);
        assert_eq!(scene.ask(1, "DBSIZE"), int(200));
        assert_eq!(scene.ask(1, "GET key20"), bulk("old-key20+"));
    }
}

#[test]
fn what_clients_change_before_the_freeze_is_pulled_anew() {
    for protocol in FREEZE_FIRST {
        let (mut scene, id) = copied_ahead(protocol);
        assert_eq!(scene.ask(0, "SET key20 new"), ok());
        assert_eq!(scene.ask(0, "DEL key40"), int(1));
        assert_eq!(scene.ask(0, "RENAME key60 key61"), ok());
        run_until_frozen(&mut scene, id);
        assert!(has_copy(&scene, "key100"), "{protocol}");
        scene.cluster.network.release();
        scene.cluster.run_for(5_000);
        let expected = [
            ("key20", bulk("new")),
            ("key40", Value::Null),
            ("key60", Value::Null),
            ("key61", bulk("old-key60")),
        ];
        for (key, value) in expected {
            assert_eq!(scene.ask(1, &format!("GET {key}")), value, "{protocol}: {key}");
        }
        scene.finish(id);
        assert_eq!(scene.ask(1, "DBSIZE"), int(198), "{protocol}");
    }
}

#[test]
fn copies_of_hot_keys_leave_no_trace_where_the_migration_is_cancelled() {
    for protocol in FREEZE_FIRST {
        let (mut scene, id) = copied_ahead(protocol);
        // Once the target has reported that it is ready, it is too late.
        let reply = scene.ask(0, &format!("SIDLE.MIGRATE CANCEL {id}"));
        if reply == ok() {
            scene.cluster.network.release();
            scene.cluster.run_for(2_000_000);
            assert_eq!(scene.state(id), "cancelled");
            assert_eq!(scene.cluster.nodes[1].parts.store.len(), 0, "{protocol}");
            assert!(scene.cluster.nodes[0].workers.iter().all(|worker| worker.ranges().owns_everything()));
            let id = scene.start_by(protocol, "SLOTS 0-16383", 1);
            scene.finish(id);
        } else {
            scene.finish(id);
        }
        assert_eq!(scene.ask(1, "DBSIZE"), int(200), "{protocol}");
    }
}
