//! Commands that need an old value, on a key that has not arrived and on one that never existed.

use crate::common::*;
use sidle_resp::Value;
use sidle_types::PositionRange;

/// In the middle of a migration: each command on a key with a value, then on one without.
fn on_keys_not_here_yet(command: &str, with: Value, then: Value, without: Value, after: Value) {
    for_every_protocol(|mut scene| {
        assert_eq!(scene.ask(0, "SET there 10"), ok());
        let id = scene.start_and_hold("SLOTS 0-16383", 1);
        assert_eq!(scene.client(&command.replace("KEY", "there")), with, "{command}, not here yet");
        assert_eq!(scene.client("GET there"), then, "{command}, not here yet, afterwards");
        assert_eq!(scene.client(&command.replace("KEY", "never")), without, "{command}, never existed");
        assert_eq!(scene.client("GET never"), after, "{command}, never existed, afterwards");
        scene.finish(id);
        assert_eq!(scene.ask(1, "GET there"), then, "{command}: the late replay changed it");
        assert_eq!(scene.ask(1, "GET never"), after, "{command}: the end changed it");
    });
}

#[test]
fn incr() {
    on_keys_not_here_yet("INCR KEY", int(11), bulk("11"), int(1), bulk("1"));
    on_keys_not_here_yet("DECRBY KEY 3", int(7), bulk("7"), int(-3), bulk("-3"));
}

#[test]
fn set_with_conditions() {
    on_keys_not_here_yet("SET KEY new NX", Value::Null, bulk("10"), ok(), bulk("new"));
    on_keys_not_here_yet("SETNX KEY new", int(0), bulk("10"), int(1), bulk("new"));
    on_keys_not_here_yet("SET KEY new XX", ok(), bulk("new"), Value::Null, Value::Null);
    on_keys_not_here_yet("SET KEY new GET", bulk("10"), bulk("new"), Value::Null, bulk("new"));
}

#[test]
fn append_and_setrange() {
    on_keys_not_here_yet("APPEND KEY abc", int(5), bulk("10abc"), int(3), bulk("abc"));
    on_keys_not_here_yet("SETRANGE KEY 1 x", int(2), bulk("1x"), int(2), bulk("\0x"));
}

#[test]
fn getset_and_getdel() {
    on_keys_not_here_yet("GETSET KEY new", bulk("10"), bulk("new"), Value::Null, bulk("new"));
    on_keys_not_here_yet("GETDEL KEY", bulk("10"), Value::Null, Value::Null, Value::Null);
}

#[test]
fn del_counts_and_stays() {
    on_keys_not_here_yet("DEL KEY", int(1), Value::Null, int(0), Value::Null);
    on_keys_not_here_yet("UNLINK KEY", int(1), Value::Null, int(0), Value::Null);
}

#[test]
fn reads() {
    on_keys_not_here_yet("STRLEN KEY", int(2), bulk("10"), int(0), Value::Null);
    on_keys_not_here_yet("EXISTS KEY", int(1), bulk("10"), int(0), Value::Null);
    on_keys_not_here_yet("GETRANGE KEY 0 0", bulk("1"), bulk("10"), bulk(""), Value::Null);
    on_keys_not_here_yet("TTL KEY", int(-1), bulk("10"), int(-2), Value::Null);
}

#[test]
fn expire_and_persist() {
    on_keys_not_here_yet("EXPIRE KEY 1000", int(1), bulk("10"), int(0), Value::Null);
    on_keys_not_here_yet("PERSIST KEY", int(0), bulk("10"), int(0), Value::Null);
    on_keys_not_here_yet("GETEX KEY EX 1000", bulk("10"), bulk("10"), Value::Null, Value::Null);
}

#[test]
fn blind_writes_do_not_wait() {
    for_protocols_that(serves_while_it_fills, 2, |mut scene| {
        assert_eq!(scene.ask(0, "SET there 10"), ok());
        let id = scene.start_and_hold("SLOTS 0-16383", 1);
        scene.cluster.network.hold_priority = true;
        let to = scene.to[1];
        for request in ["SET there new", "SETEX there 1000 new", "MSET there new {there}2 new", "GET there"] {
            scene.cluster.send(to, request);
            assert!(scene.cluster.reply_now(to).is_some(), "{request} waits for the source");
        }
        scene.finish(id);
        assert_eq!(scene.ask(1, "GET there"), bulk("new"), "M5: a late replay replaced a newer write");
        assert_eq!(scene.ask(1, "GET {there}2"), bulk("new"));
    });
}

#[test]
fn versions_only_grow_across_nodes() {
    for_every_protocol(|mut scene| {
        for _ in 0..50 {
            scene.ask(0, "INCR counter");
        }
        let version = |scene: &Scene, node: usize| {
            let store = &scene.cluster.nodes[node].parts.store;
            let guard = store.pin();
            let record = guard.get(sidle_types::HashedKey::new(b"counter")).value().expect("a value");
            record.version()
        };
        let at_source = version(&scene, 0);
        let id = scene.start_and_hold("SLOTS 0-16383", 1);
        assert_eq!(scene.client("SET counter blind"), ok());
        scene.finish(id);
        assert!(version(&scene, 1) > at_source);
    });
}

#[test]
fn a_write_by_one_session_is_seen_by_another_that_waits() {
    for_protocols_that(serves_while_it_fills, 2, |mut scene| {
        assert_eq!(scene.ask(0, "SET there 10"), ok());
        let id = scene.start_and_hold("SLOTS 0-16383", 1);
        let other = scene.cluster.connect(1, 1);
        let to = scene.to[1];
        scene.cluster.send(to, "INCR there");
        assert_eq!(scene.cluster.reply_now(to), None, "it has to wait for the old value");
        assert_eq!(scene.cluster.ask(other, "SET there 100"), ok());
        assert_eq!(scene.cluster.reply(to), int(101));
        scene.finish(id);
        assert_eq!(scene.ask(1, "GET there"), bulk("101"));
    });
}

#[test]
fn program_order_holds_while_a_command_waits() {
    for_every_protocol(|mut scene| {
        assert_eq!(scene.ask(0, "SET a 1"), ok());
        assert_eq!(scene.ask(0, "SET b 1"), ok());
        let id = scene.start_and_hold("SLOTS 0-16383", 1);
        let ahead = copies_ahead(&scene.protocol);
        let to = scene.to[usize::from(!ahead)];
        for request in ["INCR a", "SET b 7", "INCR a", "GET b", "GET a"] {
            scene.cluster.send(to, request);
        }
        if !ahead {
            assert_eq!(scene.cluster.reply_now(to), None, "nothing overtakes the command that waits");
        }
        scene.cluster.network.release();
        let replies: Vec<Value> = (0..5).map(|_| scene.cluster.reply(to)).collect();
        assert_eq!(replies, [int(2), ok(), int(3), bulk("7"), bulk("3")]);
        scene.finish(id);
    });
}

/// D5: with little memory, a mark of absence may make way before the command that asked runs again. If it
/// asked once more, commands at a full node could evict each other's answers for ever.
#[test]
fn an_answer_holds_although_its_mark_has_gone() {
    for request in ["GET nobody", "DEL nobody", "INCR nobody"] {
        let mut scene = Scene::new();
        scene.fill(["key".to_owned()]);
        scene.start_and_hold("SLOTS 0-16383", 1);
        let to = scene.to[1];
        scene.cluster.send(to, request);
        scene.cluster.serve_alone(to);
        scene.cluster.nodes[1].held_workers = vec![0];
        scene.cluster.run_for(5_000);
        let store = &scene.cluster.nodes[1].parts.store;
        let place = position("nobody");
        assert_eq!(store.tombstones_in(PositionRange::only(place)), 1, "the mark");
        assert_eq!(store.discard(place, place, usize::MAX), None);
        // A second question would get no answer.
        scene.cluster.network.hold_priority = true;
        scene.cluster.nodes[1].held_workers.clear();
        let answer = match request {
            "GET nobody" => Value::Null,
            "DEL nobody" => int(0),
            _ => int(1),
        };
        assert_eq!(scene.cluster.reply(to), answer, "{request}");
    }
}

#[test]
fn a_client_that_leaves_when_its_command_was_woken_leaves_nothing() {
    for_protocols_that(serves_while_it_fills, 2, |mut scene| {
        scene.fill(["key".to_owned()]);
        scene.start_and_hold("SLOTS 0-16383", 1);
        let to = scene.to[1];
        scene.cluster.send(to, "GET nobody");
        scene.cluster.serve_alone(to);
        scene.cluster.nodes[1].held_workers = vec![0];
        scene.cluster.run_for(5_000);
        // The answer has arrived, and the command has not run again.
        scene.cluster.nodes[1].workers[0].turn();
        assert_ne!(scene.cluster.nodes[1].workers[0].in_hand(), []);
        scene.cluster.disconnect(to);
        assert_eq!(scene.cluster.nodes[1].workers[0].in_hand(), []);
    });
}

#[test]
fn a_command_that_would_wait_for_too_many_keys_is_refused() {
    let mut scene = Scene::new();
    scene.start_and_hold("SLOTS 0-16383", 1);
    scene.cluster.network.hold_priority = true;
    let request = format!("MGET {}", keys("{tag}", (1 << 17) + 1).join(" "));
    let Value::Error(text) = scene.ask(1, &request) else { panic!("it does not wait") };
    assert!(text.starts_with("TRYAGAIN too many keys are waited for"), "{text}");
}
