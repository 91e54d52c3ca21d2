//! Broken links, and events between a decision and its command.

use crate::common::*;
use sidle_resp::Value;
use sidle_types::MigrationId;

#[test]
fn a_cut_link_comes_back() {
    for_protocols_that(serves_while_it_fills, 2, |mut scene| {
        let keys = keys("key", 500);
        scene.fill(keys.clone());
        let id = scene.start_and_hold("SLOTS 0-16383", 1);
        assert_eq!(scene.ask(1, "GET key1"), bulk("old-key1"));
        scene.cluster.network.cut();
        let to = scene.to[1];
        scene.cluster.send(to, "GET key2");
        scene.cluster.run_for(200_000);
        assert_eq!(scene.cluster.reply_now(to), None, "it can only wait");
        assert_eq!(scene.cluster.nodes[1].workers[0].parked(), 1);
        let other = scene.cluster.connect(1, 0);
        assert_eq!(scene.cluster.ask(other, "SET key3 new"), ok(), "blind writes go on");
        scene.cluster.network.is_cut = false;
        assert_eq!(scene.cluster.reply(to), bulk("old-key2"));
        scene.finish(id);
        assert_eq!(scene.state(id), "done");
        for key in &keys {
            let expected = if key == "key3" { "new".to_owned() } else { format!("old-{key}") };
            assert_eq!(scene.ask(1, &format!("GET {key}")), bulk(&expected));
        }
    });
}

#[test]
fn links_cut_again_and_again() {
    for_every_protocol(|mut scene| {
        let keys = keys("key", 2000);
        scene.fill(keys.clone());
        let id = scene.start("SLOTS 0-16383", 1);
        for round in 0..20 {
            scene.cluster.run_for(150 + 37 * round);
            scene.cluster.network.cut();
            scene.cluster.run_for(50);
            scene.cluster.network.is_cut = false;
        }
        scene.finish(id);
        assert_eq!(scene.state(id), "done");
        assert_eq!(scene.ask(1, "DBSIZE"), int(2000));
    });
}

#[test]
fn a_source_that_refuses_connections_is_dialed_again_while_the_migration_is_prepared() {
    for_every_protocol(|mut scene| {
        scene.fill(keys("key", 50));
        scene.cluster.network.is_cut = true;
        let other = scene.cluster.connect(0, 0);
        let start =
            format!("SIDLE.MIGRATE START SLOTS 0-16383 TO 127.0.0.1:7002 PROTOCOL {}", scene.protocol.name);
        scene.cluster.send(other, &start);
        for us in [10_000, 3_000_000, 5_000_000] {
            scene.cluster.run_for(us);
            assert_eq!(scene.state(MigrationId(1)), "preparing");
        }
        scene.cluster.network.is_cut = false;
        assert_eq!(scene.cluster.reply(other), int(1));
        scene.finish(MigrationId(1));
        assert_eq!(scene.state(MigrationId(1)), "done");
        assert_eq!(scene.ask(1, "DBSIZE"), int(50));
    });
}

#[test]
fn only_the_maker_of_a_keys_entry_reports_it_as_written_unseen() {
    let mut scene = Scene::new();
    scene.fill(keys("key", 10));
    let id = scene.start_and_hold("SLOTS 0-16383", 1);
    assert_eq!(scene.ask(1, "DBSIZE"), int(10));
    // Another worker writes the key in between, and has yet to report it. With two answered reports the key
    // would be subtracted twice.
    scene.cluster.nodes[1].workers[0].hooks().once_judged(|store| {
        let key = sidle_types::HashedKey::new(b"key1");
        let mut head = store.log_head();
        store.lock_slot(key.slot()).put(&mut head, key, &[b"between"], None).expect("there is room");
    });
    assert_eq!(scene.ask(1, "SET key1 new"), ok());
    assert_eq!(scene.ask(1, "MSET key2 1 key2 2 other 3"), ok());
    scene.cluster.run_for(1_000_000);
    assert_eq!(scene.ask(1, "DBSIZE"), int(10 + 1 + 1), "one report is still to come; one key is new");
    scene.finish(id);
    assert_eq!(scene.ask(1, "DBSIZE"), int(11));
}

#[test]
fn a_record_that_arrives_between_decision_and_look_up_is_found() {
    let mut scene = Scene::new();
    scene.fill(["key".to_owned()]);
    let id = scene.start_and_hold("SLOTS 0-16383", 1);
    // A key that was deleted here has an entry: the command runs. If the store were read before the progress,
    // or the first look-up passed on, events in between would be missed.
    assert_eq!(scene.ask(1, "DEL key"), int(1));
    scene.cluster.nodes[1].workers[0].hooks().once_judged(|store| {
        let key = sidle_types::HashedKey::new(b"key");
        let mut head = store.log_head();
        store.lock_slot(key.slot()).put(&mut head, key, &[b"between"], None).expect("there is room");
    });
    assert_eq!(scene.ask(1, "GET key"), bulk("between"), "D2");
    scene.finish(id);
    assert_ne!(scene.ask(1, "GET key"), Value::Null);
}
