//! EXEC over keys of several nodes, for connections that opted in.

use crate::common::*;
use sidle_node::testing::{ClientKey, LATENCY_US};
use sidle_resp::Value;
use sidle_types::Slot;

/// A key of each node, the upper half of the slots being the second one's.
fn split() -> (Scene, [String; 2]) {
    split_of(Scene::new())
}

fn split_of(mut scene: Scene) -> (Scene, [String; 2]) {
    let id = scene.start("SLOTS 8192-16383", 1);
    scene.finish(id);
    let at = |is_upper: bool| {
        let is_there = |key: &String| (Slot::of_key(key.as_bytes()).number() >= 8192) == is_upper;
        keys("key", 100).into_iter().find(is_there).expect("a hundred keys are in both halves")
    };
    (scene, [at(false), at(true)])
}

impl Scene {
    fn crossing(&mut self, node: usize) -> ClientKey {
        let client = self.cluster.connect(node, 0);
        assert_eq!(self.request(client, "CLIENT CAPA cross-slot"), ok());
        client
    }

    fn request(&mut self, client: ClientKey, request: &str) -> Value {
        self.cluster.send(client, request);
        self.cluster.reply(client)
    }

    fn queue(&mut self, client: ClientKey, requests: &[&str]) {
        assert_eq!(self.request(client, "MULTI"), ok());
        for request in requests {
            assert_eq!(self.request(client, request), Value::Simple("QUEUED".to_owned()), "{request}");
        }
    }
}

#[test]
fn exec_over_two_nodes_is_one_change() {
    let (mut scene, [here, there]) = split();
    for node in [0, 1] {
        let client = scene.crossing(node);
        let [set, add] = [format!("APPEND {here} x"), format!("APPEND {there} y")];
        scene.queue(client, &[&set, &add, &format!("GET {here}")]);
        let began = scene.cluster.now().mono;
        let Value::Array(replies) = scene.request(client, "EXEC") else { panic!("no array") };
        let long = node as i64 + 1;
        assert_eq!(replies, [int(long), int(long), bulk(&"x".repeat(node + 1))]);
        let took_us = scene.cluster.now().mono.since(began);
        assert!(took_us < 8 * LATENCY_US, "two rounds of requests, and the client's: {took_us} us");
    }
    assert_eq!(scene.ask(0, &format!("GET {here}")), bulk("xx"));
    assert_eq!(scene.ask(1, &format!("GET {there}")), bulk("yy"));
    scene.cluster.run_for(1_000_000);
    for node in &scene.cluster.nodes {
        assert!(!node.parts.store.has_locks(), "nothing is left beside the keys");
    }
}

/// All keys are at one other node: it is asked once.
#[test]
fn exec_at_another_node() {
    let (mut scene, [_, there]) = split();
    let client = scene.crossing(0);
    scene.queue(client, &[&format!("SET {there} 1"), &format!("INCR {there}")]);
    assert_eq!(scene.request(client, "EXEC"), Value::Array(vec![ok(), int(2)]));
    assert_eq!(scene.ask(1, &format!("GET {there}")), bulk("2"));
}

/// An error of a command is its reply; the others have their effect, as in Redis.
#[test]
fn errors_of_commands_are_their_replies() {
    let (mut scene, [here, there]) = split();
    let client = scene.crossing(0);
    scene.queue(client, &[&format!("SET {here} a"), &format!("INCR {here}"), &format!("SET {there} b")]);
    let Value::Array(replies) = scene.request(client, "EXEC") else { panic!("no array") };
    assert_eq!((&replies[0], &replies[2]), (&ok(), &ok()));
    assert!(matches!(&replies[1], Value::Error(text) if text.contains("not an integer")), "{replies:?}");
    assert_eq!(scene.ask(1, &format!("GET {there}")), bulk("b"));
}

#[test]
fn what_cannot_be_over_nodes_is_refused_whole() {
    let (mut scene, [here, there]) = split();
    let client = scene.crossing(0);
    let [set, other] = [format!("SET {here} a"), format!("SET {there} b")];
    for (bad, why) in [
        ("DBSIZE".to_owned(), "EXECABORT"),
        (format!("RENAME {here} {there}"), "EXECABORT Transaction discarded because of: CROSSSLOT"),
        (format!("MSETNX {here} 1 {there} 2"), "EXECABORT Transaction discarded because of: CROSSSLOT"),
    ] {
        scene.queue(client, &[&set, &other, &bad]);
        let reply = scene.request(client, "EXEC");
        assert!(matches!(&reply, Value::Error(text) if text.starts_with(why)), "{bad}: {reply:?}");
    }
    assert_eq!(scene.ask(0, &format!("EXISTS {here}")), int(0));
    // Who has not opted in is redirected, as ever.
    let plain = scene.cluster.connect(0, 0);
    assert_eq!(scene.request(plain, "MULTI"), ok());
    let reply = scene.request(plain, &other);
    assert!(matches!(&reply, Value::Error(text) if text.starts_with("MOVED ")), "{reply:?}");
}

/// Who may not do something any more when EXEC comes does none of it, on no node.
#[test]
fn rights_are_those_of_the_moment_of_exec() {
    let (mut scene, [here, there]) = split();
    let client = scene.crossing(0);
    scene.queue(client, &[&format!("SET {here} a"), &format!("APPEND {there} b")]);
    let operator = scene.cluster.connect(0, 0);
    assert_eq!(scene.request(operator, "ACL SETUSER default -append"), ok());
    let reply = scene.request(client, "EXEC");
    assert!(matches!(&reply, Value::Error(text) if text.contains("NOPERM")), "{reply:?}");
    assert_eq!(scene.ask(0, &format!("EXISTS {here}")), int(0));
    assert_eq!(scene.ask(1, &format!("EXISTS {there}")), int(0));
}

/// A range moves back and forth under transactions over both nodes: none fails, and none is lost.
#[test]
fn transactions_go_on_while_a_range_moves() {
    for_every_protocol(|mut scene| {
        let names = ["a", "b", "c", "d"];
        scene.fill(names.map(str::to_owned));
        let clients = [scene.crossing(0), scene.crossing(1)];
        let mut done = 0;
        for turn in 0..4 {
            let id = scene.start("SLOTS 0-8191", (turn + 1) % 2);
            for _ in 0..3 {
                for client in clients {
                    let requests: Vec<String> = names.iter().map(|name| format!("APPEND {name} +")).collect();
                    scene.queue(client, &requests.iter().map(String::as_str).collect::<Vec<_>>());
                    let reply = scene.request(client, "EXEC");
                    done += 1;
                    let long = "old-a".len() + done;
                    assert_eq!(reply, Value::Array(vec![int(long as i64); names.len()]), "turn {turn}");
                }
            }
            scene.finish(id);
        }
        for name in names {
            let get = format!("GET {name}");
            let client = clients[0];
            scene.queue(client, &[&get]);
            let expected = bulk(&format!("old-{name}{}", "+".repeat(done)));
            assert_eq!(scene.request(client, "EXEC"), Value::Array(vec![expected]));
        }
    });
}

/// A client that goes in the middle: its transaction is done or not, as a whole, and no key stays locked.
#[test]
fn a_client_that_goes_leaves_nothing_locked() {
    let (mut scene, [here, there]) = split();
    for waits in 0..6 {
        let client = scene.crossing(0);
        scene.queue(client, &[&format!("APPEND {here} x"), &format!("APPEND {there} y")]);
        scene.cluster.send(client, "EXEC");
        scene.cluster.run_for(waits * LATENCY_US / 2);
        scene.cluster.disconnect(client);
        scene.cluster.run_for(3_000_000);
        let lengths = [(0, &here), (1, &there)].map(|(node, key)| scene.ask(node, &format!("STRLEN {key}")));
        assert_eq!(lengths[0], lengths[1], "{waits}");
    }
}

/// A command over keys of both nodes is one for each key, and its reply is as if it had been one.
#[test]
fn commands_of_which_each_key_is_a_piece_are_over_both_nodes() {
    for_every_protocol(|scene| {
        let (mut scene, [here, there]) = split_of(scene);
        for node in [0, 1] {
            let client = scene.crossing(node);
            let none = "none";
            scene.queue(
                client,
                &[
                    &format!("MSET {here} 1 {there} 2"),
                    &format!("MGET {there} {none} {here} {there}"),
                    &format!("EXISTS {here} {there} {none} {here}"),
                    &format!("TOUCH {there} {here}"),
                    &format!("DEL {here} {there} {here}"),
                    &format!("MSET {there} 3 {here} 4 {there} 5"),
                    &format!("UNLINK {none} {there}"),
                    &format!("GET {here}"),
                ],
            );
            let values = Value::Array(vec![bulk("2"), Value::Null, bulk("1"), bulk("2")]);
            let replies = vec![ok(), values, int(3), int(2), int(2), ok(), int(1), bulk("4")];
            assert_eq!(scene.request(client, "EXEC"), Value::Array(replies));
            assert_eq!(scene.ask(0, &format!("GET {here}")), bulk("4"));
            assert_eq!(scene.ask(1, &format!("GET {there}")), Value::Null);
        }
    });
}

/// What WATCH saw of keys of both nodes is compared by EXEC. Whoever comes between makes it nil.
#[test]
fn exec_depends_on_watched_keys_of_both_nodes() {
    for_every_protocol(|scene| {
        let (mut scene, [here, there]) = split_of(scene);
        let client = scene.crossing(0);
        let owners = [(0, here.clone()), (1, there.clone())];
        for (node, key) in &owners {
            assert_eq!(scene.ask(*node, &format!("SET {key} same")), ok());
        }
        let watch = format!("WATCH {here} {there}");
        let sets = [format!("SET {here} same"), format!("SET {there} same")];
        let sets = [sets[0].as_str(), sets[1].as_str()];
        let done = Value::Array(vec![ok(), ok()]);
        assert_eq!(scene.request(client, &watch), ok());
        scene.queue(client, &sets);
        assert_eq!(scene.request(client, "EXEC"), done, "nobody came between");
        for (node, key) in &owners {
            let changes = [
                format!("SET {key} same"),
                format!("APPEND {key} +"),
                format!("PEXPIRE {key} 100000"),
                format!("DEL {key}"),
                format!("RPUSH {key} item"),
                format!("LSET {key} 0 item"),
                format!("SET {key} same PX 20"),
            ];
            for change in changes {
                // Either both keys by one WATCH, or each by one of its own.
                assert_eq!(scene.request(client, &format!("WATCH {there}")), ok());
                assert_eq!(scene.request(client, &watch), ok());
                if change.starts_with("SET") && change.ends_with("20") {
                    scene.request(client, "UNWATCH");
                    scene.ask(*node, &change);
                    assert_eq!(scene.request(client, &watch), ok());
                    scene.cluster.run_for(30_000);
                } else {
                    let reply = scene.ask(*node, &change);
                    assert!(!matches!(reply, Value::Error(_)), "{change}: {reply:?}");
                }
                let before = scene.ask(*node, &format!("TYPE {key}"));
                scene.queue(client, &sets);
                assert_eq!(scene.request(client, "EXEC"), Value::Null, "{change}");
                assert_eq!(scene.ask(*node, &format!("TYPE {key}")), before, "{change}: nothing was done");
            }
            scene.queue(client, &sets);
            assert_eq!(scene.request(client, "EXEC"), done, "nothing is watched any more");
        }
        for forget in ["UNWATCH", "DISCARD"] {
            assert_eq!(scene.request(client, &watch), ok());
            if forget == "DISCARD" {
                scene.queue(client, &sets);
            }
            assert_eq!(scene.request(client, forget), ok());
            scene.ask(1, &format!("SET {there} other"));
            scene.queue(client, &sets);
            assert_eq!(scene.request(client, "EXEC"), done, "{forget}");
        }
        // Only the condition is elsewhere, and there is no value.
        assert_eq!(scene.ask(1, &format!("DEL {there}")), int(1));
        for (is_set, expected) in [(false, Value::Array(vec![ok()])), (true, Value::Null)] {
            assert_eq!(scene.request(client, &format!("WATCH {there}")), ok());
            if is_set {
                assert_eq!(scene.ask(1, &format!("SET {there} new")), ok());
            }
            scene.queue(client, &sets[..1]);
            assert_eq!(scene.request(client, "EXEC"), expected);
        }
        scene.cluster.run_for(1_000_000);
        for node in &scene.cluster.nodes {
            assert!(!node.parts.store.has_locks(), "nothing is left beside the keys");
        }
    });
}

/// Two clients count by WATCH, GET and SET of keys of both nodes, while a range moves: no count is lost.
#[test]
fn nothing_is_lost_between_watch_and_exec_while_a_range_moves() {
    for_every_protocol(|mut scene| {
        let names = ["a", "b", "c", "d"];
        for name in names {
            assert_eq!(scene.ask(0, &format!("SET {name} 0")), ok());
        }
        let clients = [scene.crossing(0), scene.crossing(1)];
        let (mut count, mut done, mut lost) = (0, 0, 0);
        let watch = format!("WATCH {}", names.join(" "));
        for turn in 0..4 {
            let id = scene.start("SLOTS 0-8191", (turn + 1) % 2);
            for round in 0..4 {
                for client in clients {
                    assert_eq!(scene.request(client, &watch), ok());
                }
                // Both have read the same.
                scene.cluster.run_for(round * 700);
                let sets: Vec<String> = names.map(|name| format!("SET {name} {}", count + 1)).to_vec();
                let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
                let mut has_counted = false;
                for client in clients {
                    scene.queue(client, &sets);
                    match scene.request(client, "EXEC") {
                        Value::Array(replies) => {
                            assert_eq!(replies, vec![ok(); names.len()]);
                            assert!(!std::mem::replace(&mut has_counted, true), "turn {turn}: one is lost");
                            done += 1;
                        }
                        Value::Null => lost += 1,
                        other => panic!("turn {turn}: {other:?}"),
                    }
                }
                count += i32::from(has_counted);
            }
            scene.finish(id);
        }
        assert!(done >= 8 && lost >= 16, "{done} done, {lost} lost");
        let gets = names.map(|name| format!("GET {name}"));
        scene.queue(clients[0], &gets.each_ref().map(|get| get.as_str()));
        let expected = Value::Array(vec![bulk(&count.to_string()); names.len()]);
        assert_eq!(scene.request(clients[0], "EXEC"), expected);
    });
}
