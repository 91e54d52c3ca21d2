//! FLUSHALL in the middle of a migration: what has not arrived is absent, for good.

use crate::common::*;
use sidle_resp::Value;

#[test]
fn flushall_by_the_owner_discards_what_has_not_arrived() {
    for_every_protocol(|mut scene| {
        let keys = keys("key", 100);
        scene.fill(keys.clone());
        let id = scene.start_and_hold("SLOTS 0-16383", 1);
        assert_eq!(scene.client("GET key0"), bulk("old-key0"), "one has arrived");
        scene.client("SET key1 new");
        let owner = usize::from(!copies_ahead(&scene.protocol));
        assert_eq!(scene.ask(owner, "FLUSHALL"), ok());
        assert_eq!(scene.ask(owner, "DBSIZE"), int(0));
        scene.ask(owner, "SET key2 newer");
        for key in &keys {
            let expected = if key == "key2" { bulk("newer") } else { Value::Null };
            assert_eq!(scene.ask(owner, &format!("GET {key}")), expected, "{key}");
        }
        scene.finish(id);
        assert_eq!(scene.state(id), "done");
        assert_eq!(scene.ask(1, "DBSIZE"), int(1));
        assert_eq!(scene.ask(1, "GET key2"), bulk("newer"));
        assert_eq!(scene.cluster.nodes[0].parts.store.len(), 0);
    });
}

#[test]
fn flushall_at_the_source_clears_what_it_keeps() {
    for_protocols_that(by_cuts, 2, |mut scene| {
        let keys = keys("key", 100);
        scene.fill(keys.clone());
        let id = scene.start_and_hold("SLOTS 0-16383", 1);
        assert_eq!(scene.client("GET key0"), bulk("old-key0"), "it is taken");
        assert_eq!(scene.ask(0, "FLUSHALL"), ok());
        assert_eq!(scene.ask(0, "DBSIZE"), int(0));
        scene.finish(id);
        assert_eq!(scene.ask(1, "GET key0"), bulk("old-key0"), "it was the target's");
        assert_eq!(scene.ask(1, "DBSIZE"), int(1));
    });
}

/// What is copied and not given yet is cleared at the target too (M22).
#[test]
fn flushall_at_the_source_is_seen_by_the_copy() {
    let mut scene = Scene::new();
    scene.fill(keys("key", 100));
    scene.cluster.network.hold_bulk = true;
    let id = scene.start_by("handoff,cut-period=1000000", "SLOTS 0-16383", 1);
    scene.cluster.run_until("it runs", |cluster| cluster.nodes[1].workers[0].ranges().import(id).is_some());
    // After this cut none is due for a second.
    assert_eq!(scene.ask(1, "GET key0"), bulk("old-key0"));
    scene.cluster.network.release();
    scene.cluster.run_for(100_000);
    assert!(scene.cluster.nodes[1].parts.store.len() > 90, "it is copied");
    assert_eq!(scene.ask(0, "DBSIZE"), int(99), "and kept");
    assert_eq!(scene.ask(0, "FLUSHALL"), ok());
    scene.finish(id);
    assert_eq!(scene.ask(1, "DBSIZE"), int(1));
}

#[test]
fn flushall_at_the_target_answers_commands_that_wait_for_a_key() {
    for_protocols_that(serves_while_it_fills, 2, |mut scene| {
        scene.fill(["key".to_owned()]);
        let id = scene.start_and_hold("SLOTS 0-16383", 1);
        scene.cluster.network.hold_priority = true;
        let other = scene.cluster.connect(1, 1);
        scene.cluster.send(other, "GET key");
        assert_eq!(scene.cluster.reply_now(other), None);
        assert_eq!(scene.ask(1, "FLUSHALL"), ok());
        assert_eq!(scene.cluster.reply(other), Value::Null);
        scene.finish(id);
    });
}

#[test]
fn flushall_at_the_source_leaves_the_frozen_copy_alone() {
    for_protocols_that(freezes_first, 2, |mut scene| {
        // foo is in slot 12182 and stays, bar is in slot 5061 and moves.
        scene.fill(["foo".to_owned(), "bar".to_owned()]);
        let id = scene.start_and_hold("SLOTS 0-8191", 1);
        assert_eq!(scene.ask(0, "FLUSHALL"), ok());
        assert_eq!(scene.ask(0, "GET foo"), Value::Null);
        assert_eq!(scene.client("GET bar"), bulk("old-bar"));
        scene.finish(id);
        assert_eq!(scene.ask(1, "GET bar"), bulk("old-bar"));
    });
}

#[test]
fn flushall_before_activation_waits() {
    for_every_protocol(|mut scene| {
        scene.fill(["key".to_owned()]);
        let id = scene.start_and_hold_freeze();
        let to = scene.to[1];
        scene.cluster.send(to, "FLUSHALL");
        assert_eq!(scene.cluster.reply_now(to), None, "M3: the source still acknowledges");
        scene.cluster.nodes[0].held_workers.clear();
        assert_eq!(scene.cluster.reply(to), ok());
        scene.finish(id);
        assert_eq!(scene.ask(1, "GET key"), Value::Null);
    });
}

#[test]
fn flushall_flushes_a_key_once_whatever_becomes_of_its_import() {
    for_protocols_that(serves_while_it_fills, 2, |mut scene| {
        scene.fill(["key".to_owned()]);
        let _id = scene.start_and_hold("SLOTS 0-16383", 1);
        let (late, other) = (scene.cluster.connect(1, 0), scene.cluster.connect(1, 1));
        scene.cluster.send(late, "FLUSHALL");
        // The worker asks the mover, and then gets no turn while the flush ends the migration.
        scene.cluster.serve_alone(late);
        scene.cluster.nodes[1].held_workers = vec![0];
        scene.cluster.settle();
        assert_eq!(scene.cluster.ask(other, "GET key"), Value::Null, "the mover has flushed it");
        assert_eq!(scene.cluster.ask(other, "SET key new"), ok());
        scene.cluster.network.release();
        scene.cluster.run_until("the migration is over", |cluster| {
            cluster.nodes[1].workers[1].ranges().map().migrations().is_empty()
        });
        scene.cluster.nodes[1].held_workers.clear();
        assert_eq!(scene.cluster.reply(late), ok());
        assert_eq!(scene.cluster.ask(other, "GET key"), bulk("new"), "it is gone a second time");
    });
}
