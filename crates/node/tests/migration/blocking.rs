//! Commands that wait for what they are to take: first come first served, and sent on when their keys move.

use crate::common::*;
use sidle_collections::{Draft, Limits, ListDraft, Side};
use sidle_node::testing::ClientKey;
use sidle_resp::Value;
use sidle_types::{HashedKey, ValueKind};

const EVERYTHING: &str = "SLOTS 0-16383";

fn popped(key: &str, item: &str) -> Value {
    Value::Array(vec![bulk(key), bulk(item)])
}

/// Connections to a node, each with this request waiting, in order; they take turns at its workers.
fn waiting(scene: &mut Scene, node: usize, requests: &[&str]) -> Vec<ClientKey> {
    let connected = requests.iter().enumerate().map(|(number, request)| {
        let client = scene.cluster.connect(node, number % 2);
        scene.cluster.send(client, request);
        assert_eq!(scene.cluster.reply_now(client), None, "{request} waits");
        client
    });
    connected.collect()
}

#[test]
fn who_waited_longest_takes_first() {
    let mut scene = Scene::new();
    let clients = waiting(&mut scene, 0, &["BLPOP k 0"; 6]);
    assert_eq!(scene.ask(0, "RPUSH k 0 1 2"), int(3));
    for (number, client) in clients.iter().enumerate() {
        let taken = (number < 3).then(|| popped("k", &number.to_string()));
        assert_eq!(scene.cluster.reply_now(*client), taken, "client {number}");
    }
    assert_eq!(scene.ask(0, "RPUSH k 3 4 5 6"), int(4));
    for (number, client) in clients.iter().enumerate().skip(3) {
        assert_eq!(scene.cluster.reply_now(*client), Some(popped("k", &number.to_string())));
    }
    assert_eq!(scene.ask(0, "LRANGE k 0 -1"), Value::Array(vec![bulk("6")]));
}

/// Two wait and two items come with one command: the second client's turn is given by the first.
pub(crate) fn two_items_for_two_who_wait() {
    let mut scene = Scene::new();
    let clients = waiting(&mut scene, 0, &["BLPOP k 0"; 2]);
    assert_eq!(scene.ask(0, "RPUSH k 0 1"), int(2));
    for (number, client) in clients.into_iter().enumerate() {
        assert_eq!(scene.cluster.reply_now(client), Some(popped("k", &number.to_string())), "B2");
    }
}

/// Chains of moves are carried out to their end, each by another worker, before the push is answered.
pub(crate) fn who_waited_is_served_before_the_reply() {
    let mut scene = Scene::new();
    let chain = ["BLMOVE {k}2 {k}3 LEFT LEFT 0", "BLMOVE {k}1 {k}2 LEFT LEFT 0", "BLPOP {k}1 0"];
    let clients = waiting(&mut scene, 0, &chain);
    let pusher = scene.to[0];
    scene.cluster.send(pusher, "RPUSH {k}1 a b");
    scene.cluster.send(pusher, "LLEN {k}1");
    scene.cluster.send(pusher, "LRANGE {k}3 0 -1");
    assert_eq!(scene.cluster.reply(pusher), int(2));
    assert_eq!(scene.cluster.reply(pusher), int(0), "B4");
    assert_eq!(scene.cluster.reply(pusher), Value::Array(vec![bulk("a")]), "B4");
    assert_eq!(scene.cluster.reply_now(clients[2]), Some(popped("{k}1", "b")));
}

#[test]
fn a_chain_of_moves_ends_before_the_push_is_answered() {
    who_waited_is_served_before_the_reply();
}

/// An item goes round between two lists, until nobody waits: each move is answered at once.
#[test]
pub(crate) fn moves_in_a_circle_do_not_wait_for_each_other() {
    let circle = ["BLMOVE {k}1 {k}2 LEFT LEFT 0", "BLMOVE {k}2 {k}1 LEFT LEFT 0"];
    let taken = ["BLMOVE {k}1 {k}2 LEFT LEFT 0", "BRPOP {k}2 {k}1 0"];
    for (waits, is_left) in [(circle, true), (taken, false)] {
        let mut scene = Scene::new();
        let clients = waiting(&mut scene, 0, &waits);
        let pusher = scene.to[0];
        let began = scene.cluster.now().mono;
        scene.cluster.send(pusher, "RPUSH {k}1 a");
        assert_eq!(scene.cluster.reply(pusher), int(1));
        let took_us = scene.cluster.now().mono.since(began);
        assert!(took_us < 5_000, "B5: the push waited for {took_us} us");
        assert_eq!(scene.cluster.reply_now(clients[0]), Some(bulk("a")));
        let last = if is_left { bulk("a") } else { popped("{k}2", "a") };
        assert_eq!(scene.cluster.reply_now(clients[1]), Some(last));
        assert_eq!(scene.ask(0, "LLEN {k}1"), int(i64::from(is_left)));
    }
}

/// Nobody waits long for a worker that does not run.
#[test]
fn a_push_does_not_wait_for_a_stuck_worker() {
    let mut scene = Scene::new();
    let clients = waiting(&mut scene, 0, &["BLPOP k 0", "BLPOP k 0"]);
    scene.cluster.nodes[0].held_workers = vec![1];
    assert_eq!(scene.ask(0, "RPUSH k 1 2"), int(2));
    assert_eq!(scene.ask(0, "LRANGE k 0 -1"), Value::Array(vec![bulk("2")]));
    scene.cluster.nodes[0].held_workers = vec![];
    scene.cluster.run_for(1_000);
    assert_eq!(scene.cluster.reply_now(clients[1]), Some(popped("k", "2")));
}

#[test]
fn what_suits_nobody_before_goes_to_the_next() {
    let mut scene = Scene::new();
    let clients = waiting(&mut scene, 0, &["BZPOPMIN k 0", "BLMOVE k {k}d LEFT LEFT 0", "BLPOP k 0"]);
    assert_eq!(scene.ask(0, "RPUSH k 1 2"), int(2));
    assert_eq!(scene.cluster.reply_now(clients[1]), Some(bulk("1")));
    assert_eq!(scene.cluster.reply_now(clients[2]), Some(popped("k", "2")));
    assert_eq!(scene.cluster.reply_now(clients[0]), None);
    assert_eq!(scene.ask(0, "SET k string"), ok());
    assert_eq!(scene.ask(0, "DEL k"), int(1));
    assert_eq!(scene.ask(0, "ZADD k 7 m"), int(1));
    let member = Value::Array(vec![bulk("k"), bulk("m"), bulk("7")]);
    assert_eq!(scene.cluster.reply_now(clients[0]), Some(member));
}

/// Who comes while another has the turn at its first key waits, though its second key has an item: that is
/// taken nevertheless.
#[test]
fn an_item_of_a_second_key_is_not_missed_behind_a_turn_at_the_first() {
    let mut scene = Scene::new();
    assert_eq!(scene.ask(0, "RPUSH {k}2 second"), int(1));
    let before = waiting(&mut scene, 0, &["BLPOP k 0"]);
    let client = scene.cluster.connect(0, 1);
    // In one piece, so that the other's turn has begun and is not over.
    scene.cluster.send(client, "RPUSH k first");
    scene.cluster.send(client, "BLPOP k {k}2 0");
    assert_eq!(scene.cluster.reply_now(client), Some(int(1)));
    let taken = [scene.cluster.reply_now(before[0]), scene.cluster.reply_now(client)];
    assert_eq!(taken, [Some(popped("k", "first")), Some(popped("{k}2", "second"))]);
}

/// The key that an item is moved to may have a value, or be waited for: that is not what the command waits
/// for.
#[test]
fn a_destination_is_not_waited_for() {
    let mut scene = Scene::new();
    assert_eq!(scene.ask(0, "RPUSH {k}to old"), int(1));
    let clients = waiting(&mut scene, 0, &["BLMOVE k {k}to LEFT RIGHT 0", "BRPOPLPUSH k {k}to 0"]);
    assert_eq!(scene.ask(0, "RPUSH {k}to 1"), int(2));
    assert_eq!(scene.cluster.reply_now(clients[0]), None);
    assert_eq!(scene.ask(0, "RPUSH k 2 3"), int(2));
    for (client, item) in clients.into_iter().zip(["2", "3"]) {
        assert_eq!(scene.cluster.reply_now(client), Some(bulk(item)));
    }
    let items = ["3", "old", "1", "2"].map(bulk).to_vec();
    assert_eq!(scene.ask(0, "LRANGE {k}to 0 -1"), Value::Array(items));
}

#[test]
pub(crate) fn a_client_that_goes_takes_nothing_and_makes_way() {
    let mut scene = Scene::new();
    let clients = waiting(&mut scene, 0, &["BLPOP k j 0", "BLPOP k 0"]);
    scene.cluster.disconnect(clients[0]);
    assert_eq!(scene.ask(0, "RPUSH k 1"), int(1));
    assert_eq!(scene.cluster.reply_now(clients[1]), Some(popped("k", "1")));
    assert_eq!(scene.ask(0, "RPUSH j 1"), int(1));
    assert_eq!(scene.ask(0, "LLEN j"), int(1));
}

#[test]
fn the_end_of_the_time_is_a_null() {
    let mut scene = Scene::new();
    let clients = waiting(
        &mut scene,
        0,
        &["BLPOP k 0.02", "BLMOVE k {k}d LEFT LEFT 0.05", "BZMPOP 0.1 1 k MIN", "WAIT 1 70"],
    );
    for (client, reply) in clients.into_iter().zip([Value::Null, Value::Null, Value::Null, int(0)]) {
        assert_eq!(scene.cluster.reply(client), reply);
    }
    assert_eq!(scene.ask(0, "RPUSH k 1"), int(1));
    assert_eq!(scene.ask(0, "LLEN k"), int(1), "nobody waits any more");
}

/// As in Redis, whatever type the key has by then.
#[test]
fn the_end_of_the_time_is_a_null_though_the_key_has_another_type() {
    let mut scene = Scene::new();
    let clients =
        waiting(&mut scene, 0, &["BLPOP k 0.05", "BLMOVE k {k}d LEFT LEFT 0.05", "BZMPOP 0.05 1 k MIN"]);
    assert_eq!(scene.ask(0, "SET k string"), ok());
    for client in clients {
        assert_eq!(scene.cluster.reply(client), Value::Null);
    }
    let client = scene.cluster.connect(0, 0);
    let reply = scene.cluster.ask(client, "BLPOP k 0.05");
    assert!(matches!(&reply, Value::Error(text) if text.starts_with("WRONGTYPE ")), "{reply:?}");
}

/// An item comes between the look and the wait.
pub(crate) fn item_between_look_and_wait() {
    let mut scene = Scene::new();
    scene.cluster.nodes[0].workers[0].hooks().once_found_nothing(|store| {
        let mut list = ListDraft::of(None, 1);
        list.push(Side::Right, b"between");
        let key = HashedKey::new(b"k");
        let bytes = list.finish(&Limits::default()).into_packed().expect("it is short");
        let put = store.lock_slot(key.slot()).put_typed(
            &mut store.log_head(),
            key,
            ValueKind::List,
            &[&bytes],
            None,
        );
        put.expect("there is room");
    });
    let client = scene.cluster.connect(0, 0);
    scene.cluster.send(client, "BLPOP k 0");
    assert_eq!(scene.cluster.reply_now(client), Some(popped("k", "between")), "B1");
}

/// The range moves under clients that wait; they are sent to its new owner, and what is pushed there is taken
/// there, each item once.
#[test]
fn a_move_sends_those_who_wait_to_the_new_owner() {
    for_every_protocol(|mut scene| {
        scene.fill(keys("key", 20));
        let requests = ["BLPOP k 0", "BZPOPMAX k 0", "BLMOVE k {k}d LEFT LEFT 0"];
        let clients = waiting(&mut scene, 0, &requests);
        let id = scene.start(EVERYTHING, 1);
        scene.finish(id);
        for (client, request) in clients.into_iter().zip(requests) {
            let reply = scene.cluster.reply(client);
            assert!(reply == moved("k", 1) || reply == ask("k", 1), "{request}: {reply:?}");
        }
        let clients = waiting(&mut scene, 1, &["BLPOP k 0", "BRPOP k 0"]);
        assert_eq!(scene.ask(1, "RPUSH k 1 2"), int(2));
        assert_eq!(scene.cluster.reply_now(clients[0]), Some(popped("k", "1")));
        assert_eq!(scene.cluster.reply_now(clients[1]), Some(popped("k", "2")));
    });
}

/// What has yet to arrive is found there.
#[test]
fn what_has_not_arrived_is_taken_at_the_target() {
    for_protocols_that(serves_while_it_fills, 2, |mut scene| {
        assert_eq!(scene.ask(0, "RPUSH k 1 2"), int(2));
        let id = scene.start_and_hold(EVERYTHING, 1);
        let taken = scene.client("BLPOP k 0");
        if taken != popped("k", "1") {
            assert!(taken == moved("k", 1) || taken == ask("k", 1), "{taken:?}");
        }
        scene.cluster.network.release();
        scene.finish(id);
        assert_eq!(scene.ask(1, "LLEN k"), int(if taken == popped("k", "1") { 1 } else { 2 }));
    });
}

/// A cut gives the key that a client waits for, and the rest of the range stays.
pub(crate) fn cut_gives_a_key_that_is_waited_for() {
    let mut scene = Scene { protocol: sidle_migration::HANDOFF, ..Scene::new() };
    let value = "v".repeat(1000);
    for key in keys("key", 1000) {
        assert_eq!(scene.ask(0, &format!("SET {key} {value}")), ok());
    }
    let plain = waiting(&mut scene, 0, &["BLPOP k 0"]);
    let aware = scene.cluster.connect_aware(0, 1);
    scene.cluster.send(aware, "BLPOP k 0");
    let id = scene.start_and_hold(EVERYTHING, 1);
    assert_eq!(scene.cluster.reply_now(aware), None, "nothing is given yet");
    assert_eq!(scene.ask(1, "RPUSH k 1"), int(1), "it is taken");
    let reply = scene.cluster.reply_now(plain[0]).expect("P3: it is not this node's any more");
    assert!(reply == moved("k", 1) || reply == ask("k", 1), "{reply:?}");
    assert_eq!(scene.cluster.reply_now(aware), Some(moved("k", 1)));
    assert_eq!(scene.ask(1, "BLPOP k 0"), popped("k", "1"));
    scene.cluster.network.release();
    scene.finish(id);
}
