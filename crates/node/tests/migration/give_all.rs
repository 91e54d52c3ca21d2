//! A range that is given bit by bit, and then all at once: the target owns it, and pulls what it lacks.

use crate::common::*;
use sidle_migration::Load;
use sidle_resp::Value;
use sidle_types::{GaveAll, MigrationId};

/// A migration of a hundred keys in its middle, which gave all by these options: bulk frames are held.
fn held(scene: &mut Scene, options: &str) -> MigrationId {
    scene.fill(keys("key", 100));
    scene.cluster.network.hold_bulk = true;
    let id = scene.start_by(&format!("handoff,{options}"), "SLOTS 0-16383", 1);
    scene.cluster.run_until("it runs", |cluster| cluster.nodes[1].workers[0].ranges().import(id).is_some());
    scene.cluster.run_for(10_000);
    id
}

fn gave_all(scene: &Scene, id: MigrationId) -> bool {
    scene.cluster.nodes[1].workers[0].ranges().import(id).is_some_and(|view| view.gave_all())
}

/// Why the status says that all was given.
fn why(scene: &mut Scene, id: MigrationId) -> Option<GaveAll> {
    let Value::Bulk(json) = scene.ask(0, &format!("SIDLE.MIGRATE STATUS {id}")) else { panic!("no status") };
    let status: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
    serde_json::from_value(status["gave_all"].clone()).expect("a reason, or none")
}

#[test]
fn a_target_of_what_is_uncovered_serves_it_as_what_is_frozen() {
    let mut scene = Scene::new();
    let id = held(&mut scene, "uncovered=target");
    assert!(gave_all(&scene, id));
    assert_eq!(scene.ask(1, "DBSIZE"), int(100), "what is owed is counted");
    assert_eq!(scene.ask(0, "DBSIZE"), int(0));
    assert_eq!(scene.ask(1, "SET key1 new"), ok(), "a blind write waits for nothing");
    assert_eq!(scene.ask(1, "GET key2"), bulk("old-key2"), "it is pulled");
    assert_eq!(scene.ask(1, "APPEND key3 +"), int(9));
    assert_eq!(scene.ask(1, "DEL key4 key5"), int(2));
    assert_eq!(scene.ask(1, "GET nothing"), Value::Null);
    assert_eq!(scene.ask(0, "GET key6"), moved("key6", 1));
    scene.finish(id);
    assert_eq!(scene.state(id), "done");
    assert_eq!(why(&mut scene, id), Some(GaveAll::Option));
    for (key, value) in [("key1", bulk("new")), ("key3", bulk("old-key3+")), ("key4", Value::Null)] {
        assert_eq!(scene.ask(1, &format!("GET {key}")), value, "{key}");
    }
    assert_eq!(scene.ask(1, "DBSIZE"), int(98));
    assert_eq!(scene.cluster.nodes[0].parts.store.len(), 0);
    assert_eq!(scene.cluster.nodes[1].parts.store.tombstones_in(sidle_types::PositionRange::ALL), 0);
}

#[test]
fn a_source_of_what_is_uncovered_serves_it_however_many_keys_are_taken() {
    let mut scene = Scene::new();
    let id = held(&mut scene, "uncovered=source,out-of-turn=2");
    for key in ["key1", "key2"] {
        assert_eq!(scene.ask(1, &format!("GET {key}")), bulk(&format!("old-{key}")), "it is taken");
    }
    scene.cluster.send(scene.to[1], "GET key3");
    scene.cluster.run_for(100_000);
    assert!(!gave_all(&scene, id));
    assert_eq!(scene.cluster.reply_now(scene.to[1]), None, "it waits for its turn");
    assert_eq!(scene.ask(0, "GET key4"), bulk("old-key4"));
    scene.finish(id);
    assert_eq!(scene.cluster.reply_now(scene.to[1]), Some(bulk("old-key3")));
    assert_eq!((scene.state(id), why(&mut scene, id)), ("done".to_owned(), None));
}

#[test]
fn all_is_given_when_too_many_keys_are_taken() {
    let mut scene = Scene::new();
    let id = held(&mut scene, "uncovered=load,out-of-turn=2");
    for key in keys("key", 3) {
        assert!(!gave_all(&scene, id));
        assert_eq!(scene.ask(1, &format!("GET {key}")), bulk(&format!("old-{key}")));
    }
    assert!(gave_all(&scene, id));
    assert_eq!(scene.ask(1, "DEL key0"), int(1), "its outdated record at the source does not come back");
    scene.finish(id);
    assert_eq!((scene.state(id), why(&mut scene, id)), ("done".to_owned(), Some(GaveAll::TableFull)));
    assert_eq!(scene.ask(1, "GET key0"), Value::Null);
    assert_eq!(scene.ask(1, "DBSIZE"), int(99));
}

/// Until its workers have been behind for long enough, the source serves.
#[test]
fn all_is_given_when_the_source_falls_behind() {
    let mut scene = Scene::new();
    let id = held(&mut scene, "uncovered=load");
    for (key, lag_us) in keys("key", 40).iter().zip([0; 10].into_iter().chain([1_000_000; 30])) {
        let now = scene.cluster.now();
        scene.cluster.nodes[0].load(now, Load { worker_lag_us: lag_us, ..Load::default() });
        assert_eq!(scene.ask(1, &format!("GET {key}")), bulk(&format!("old-{key}")));
        assert!(lag_us > 0 || !gave_all(&scene, id));
        scene.cluster.run_for(5_000);
    }
    assert!(gave_all(&scene, id));
    scene.finish(id);
    assert_eq!((scene.state(id), why(&mut scene, id)), ("done".to_owned(), Some(GaveAll::Load)));
}

#[test]
fn a_flush_gives_all() {
    let mut scene = Scene::new();
    let id = held(&mut scene, "uncovered=load");
    assert_eq!(scene.ask(1, "FLUSHALL"), ok());
    assert_eq!(scene.ask(1, "DBSIZE"), int(0));
    scene.finish(id);
    assert_eq!((scene.state(id), why(&mut scene, id)), ("done".to_owned(), Some(GaveAll::Flush)));
    assert_eq!(scene.ask(1, "DBSIZE"), int(0));
}

/// What has not arrived is absent, for good; what was written at the target stays.
#[test]
fn a_flush_after_all_was_given_is_one_of_an_import() {
    let mut scene = Scene::new();
    let id = held(&mut scene, "uncovered=target");
    assert_eq!(scene.ask(1, "SET key1 new"), ok());
    assert_eq!(scene.ask(1, "FLUSHALL"), ok());
    assert_eq!(scene.ask(1, "SET key2 newer"), ok());
    scene.finish(id);
    assert_eq!(scene.ask(1, "DBSIZE"), int(1));
    assert_eq!(scene.ask(1, "GET key2"), bulk("newer"));
}

/// The target owned all of it: it owns it still, empty, as after any restart of a target.
#[test]
fn the_target_restarts_after_all_was_given() {
    let mut scene = Scene::new();
    let id = held(&mut scene, "uncovered=target");
    assert_eq!(scene.ask(1, "SET key1 new"), ok());
    scene.cluster.run_for(200_000);
    scene.cluster.restart(1);
    scene.cluster.network.release();
    scene.cluster.run_for(5_000_000);
    assert_eq!(scene.state(id), "failed");
    scene.to[1] = scene.cluster.connect(1, 0);
    assert_eq!(scene.ask(1, "GET key1"), Value::Null);
    assert_eq!(scene.ask(1, "SET key2 new"), ok(), "the range is served");
    assert_eq!(scene.ask(0, "GET key2"), moved("key2", 1));
    scene.cluster.run_for(2_000_000);
    assert_eq!(scene.cluster.nodes[0].parts.store.len(), 0);
}

/// What has arrived and what was written is served; the rest is absent.
#[test]
fn the_source_restarts_after_all_was_given() {
    let mut scene = Scene::new();
    let id = held(&mut scene, "uncovered=target");
    assert_eq!(scene.ask(1, "SET key1 new"), ok());
    assert_eq!(scene.ask(1, "GET key2"), bulk("old-key2"));
    scene.cluster.network.hold_priority = true;
    let waits = scene.cluster.connect(1, 1);
    scene.cluster.send(waits, "GET key3");
    scene.cluster.run_for(200_000);
    scene.cluster.restart(0);
    scene.cluster.network.release();
    scene.cluster.run_for(5_000_000);
    scene.to[0] = scene.cluster.connect(0, 0);
    assert_eq!(scene.state(id), "failed");
    assert_eq!(scene.cluster.reply(waits), Value::Null, "the range's only copy is gone");
    assert_eq!(scene.ask(1, "GET key1"), bulk("new"));
    assert_eq!(scene.ask(1, "GET key2"), bulk("old-key2"));
    assert_eq!(scene.ask(1, "DBSIZE"), int(2));
    assert_eq!(scene.cluster.nodes[1].parts.store.tombstones_in(sidle_types::PositionRange::ALL), 0);
}

/// Links that are cut hold up what is owed, and nothing else.
#[test]
fn what_is_owed_waits_while_the_links_are_cut() {
    let mut scene = Scene::new();
    let id = held(&mut scene, "uncovered=target");
    scene.cluster.network.cut();
    assert_eq!(scene.ask(1, "SET key1 new"), ok());
    scene.cluster.send(scene.to[1], "GET key2");
    scene.cluster.run_for(100_000);
    assert_eq!(scene.cluster.reply_now(scene.to[1]), None);
    scene.cluster.network.is_cut = false;
    scene.finish(id);
    assert_eq!(scene.cluster.reply_now(scene.to[1]), Some(bulk("old-key2")));
    assert_eq!((scene.state(id), scene.ask(1, "GET key1")), ("done".to_owned(), bulk("new")));
}
