//! `SIDLE.TX`: what the keys of one node do for transactions over several.

use sidle_node::testing::{Command, Part, SoloNode, TestClient, Waits};
use sidle_resp::Value;
use sidle_txn::{Locks, Status, TransactionId};

/// The clock of a node on its own.
const NOW_MS: u64 = 1_700_000_000_000;
const LIFE_MS: u64 = sidle_txn::LIFE_MS;

fn bulk(text: &str) -> Value {
    Value::Bulk(text.as_bytes().to_vec())
}

fn ok() -> Value {
    Value::Simple("OK".into())
}

fn refuses(reply: &Value, begin: &str) -> bool {
    matches!(reply, Value::Error(text) if text.starts_with(begin))
}

struct Scene {
    node: SoloNode,
    client: TestClient,
    other: TestClient,
}

impl Scene {
    fn new() -> Scene {
        let node = SoloNode::new();
        let (client, other) = (node.connect(), node.connect());
        Scene { node, client, other }
    }

    fn ask(&mut self, request: &str) -> Value {
        self.node.ask(&mut self.client, request)
    }

    fn prepare(&mut self, part: &Part<'_>) -> Option<Value> {
        let words = part.words();
        self.client.send(&words.iter().map(Vec::as_slice).collect::<Vec<_>>());
        while self.client.serve(&mut self.node.worker, self.node.now) {}
        self.client.receive()
    }

    /// Sends a request over the other connection, which waits.
    fn waits(&mut self, request: &str) {
        let words: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
        self.other.send(&words);
        while self.other.serve(&mut self.node.worker, self.node.now) {}
        assert_eq!(self.other.receive(), None, "{request} waits");
    }

    /// The reply that the other connection waited for.
    fn waited(&mut self) -> Value {
        // A flush works in steps.
        for _ in 0..10 {
            self.node.worker.turn();
            while let Some(ticket) = self.node.worker.poll_woken() {
                for client in [&mut self.other, &mut self.client] {
                    if matches!(client.waits, Waits::Parked(waits) if waits == ticket) {
                        client.wake(ticket);
                    }
                }
            }
            while self.other.serve(&mut self.node.worker, self.node.now) {}
            if let Some(reply) = self.other.receive() {
                return reply;
            }
        }
        panic!("it still waits")
    }

    fn decide(&mut self, key: &str, id: u128, decision: &str) -> Value {
        self.ask(&format!("SIDLE.TX DECIDE {key} {} {decision}", TransactionId(id)))
    }
}

#[test]
fn what_is_prepared_is_seen_by_nobody_until_it_is_decided() {
    for (decision, expected) in [("COMMIT", "new"), ("ABORT", "old")] {
        let mut scene = Scene::new();
        assert_eq!(scene.ask("MSET a old b old"), ok());
        let commands = [(Some("$3\r\nold\r\n"), "GET a"), (None, "SET a new"), (None, "INCR c")];
        let part = Part { commands: &commands, list: &["a", "c", "b"], ..Part::default() };
        assert_eq!(scene.prepare(&part), Some(Value::Array(vec![ok(), Value::Integer(1)])));
        assert_eq!(scene.ask("GET b"), bulk("old"), "another key");
        scene.waits("GET a");
        assert_eq!(scene.decide("a", 1, decision), ok());
        assert_eq!(scene.waited(), bulk(expected));
        scene.waits("MGET a c");
        assert_eq!(scene.decide("c", 1, decision), ok());
        let c = if decision == "COMMIT" { bulk("1") } else { Value::Null };
        assert_eq!(scene.waited(), Value::Array(vec![bulk(expected), c]));
        assert_eq!(scene.decide("c", 1, decision), ok(), "a decision may come twice");
    }
}

#[test]
fn what_is_only_read_lets_others_read_and_writes_wait() {
    for write in ["SET a 2", "MSET a 2 b 3", "DEL a b", "RENAME b a", "LPUSH a x"] {
        let mut scene = Scene::new();
        assert_eq!(scene.ask("SET b 1"), ok());
        let commands = [(Some("$-1\r\n"), "GET a")];
        assert_eq!(
            scene.prepare(&Part { commands: &commands, ..Part::default() }),
            Some(Value::Array(vec![]))
        );
        assert_eq!(scene.ask("GET a"), Value::Null);
        assert_eq!(scene.ask("MGET a b"), Value::Array(vec![Value::Null, bulk("1")]));
        scene.waits(write);
        assert_eq!(scene.decide("a", 1, "COMMIT"), ok());
        assert!(!refuses(&scene.waited(), ""), "{write}");
    }
}

#[test]
fn what_has_changed_is_not_prepared() {
    let mut scene = Scene::new();
    assert_eq!(scene.ask("SET a other"), ok());
    let commands = [(Some("$3\r\nold\r\n"), "GET a"), (None, "SET a new")];
    let reply = scene.prepare(&Part { commands: &commands, ..Part::default() }).unwrap();
    assert!(refuses(&reply, "SIDLECHANGED 'get'"), "{reply:?}");
    assert_eq!(scene.ask("GET a"), bulk("other"));
    assert_eq!(scene.ask("SET a more"), ok(), "nothing is locked");
}

/// X14.
#[test]
fn an_older_transaction_waits_and_a_younger_one_gives_way() {
    let mut scene = Scene::new();
    let commands = [(None, "APPEND a x")];
    let part = |id, age| Part { id, age, commands: &commands, ..Part::default() };
    assert_eq!(scene.prepare(&part(1, 5)), Some(Value::Array(vec![Value::Integer(1)])));
    let younger = scene.prepare(&part(2, 6)).unwrap();
    assert!(refuses(&younger, "SIDLELOCKED 00000000000000000000000000000001 "), "{younger:?}");
    assert_eq!(scene.prepare(&part(3, 4)), None);
    std::mem::swap(&mut scene.client, &mut scene.other);
    assert_eq!(scene.decide("a", 1, "COMMIT"), ok());
    assert_eq!(scene.waited(), Value::Array(vec![Value::Integer(2)]));
    // One that is alone holds nothing while it waits, whatever its age.
    let words = Part { marks: 1, list: &["a"], ..part(4, 9) }.words();
    scene.other.send(&words.iter().map(Vec::as_slice).collect::<Vec<_>>());
    while scene.other.serve(&mut scene.node.worker, scene.node.now) {}
    assert_eq!(scene.other.receive(), None);
    assert_eq!(scene.decide("a", 3, "ABORT"), ok());
    assert_eq!(scene.waited(), Value::Array(vec![Value::Integer(2)]));
    assert_eq!(scene.ask("GET a"), bulk("xx"));
    let info = scene.ask("INFO stats");
    let info = String::from_utf8_lossy(info.as_bytes().unwrap()).into_owned();
    for counted in ["conflicts:1", "waited:2", "committed:0", "helped:0"] {
        assert!(info.contains(&format!("sidle_transactions_{counted}\r\n")), "{counted}: {info}");
    }
}

#[test]
fn an_older_transaction_that_waits_is_not_passed_over() {
    let mut scene = Scene::new();
    let (holder, wide, narrow) =
        ([(None, "APPEND a x")], [(None, "APPEND a x"), (None, "APPEND b x")], [(None, "APPEND b x")]);
    let on_b =
        |id, age| Part { id, age, first: "b", list: &["b", "c"], commands: &narrow, ..Part::default() };
    let lengths =
        |numbers: &[i64]| Value::Array(numbers.iter().map(|&number| Value::Integer(number)).collect());
    let part = Part { id: 1, age: 5, commands: &holder, ..Part::default() };
    assert_eq!(scene.prepare(&part), Some(lengths(&[1])));
    assert_eq!(scene.prepare(&Part { id: 2, age: 4, commands: &wide, ..Part::default() }), None, "it waits");
    std::mem::swap(&mut scene.client, &mut scene.other);
    // Nobody has locked the key, but somebody older waits for it.
    let younger = scene.prepare(&on_b(3, 6)).unwrap();
    assert!(refuses(&younger, "SIDLELOCKED 00000000000000000000000000000002 "), "{younger:?}");
    assert_eq!(scene.prepare(&on_b(4, 3)), Some(lengths(&[1])), "an older one need not wait for it");
    assert_eq!(scene.decide("b", 4, "ABORT"), ok());
    let alone = Part { marks: 1, list: &["b"], ..on_b(5, 9) };
    assert_eq!(scene.prepare(&alone), Some(lengths(&[1])), "one that is alone holds nothing");
    assert_eq!(scene.decide("a", 1, "COMMIT"), ok());
    assert_eq!(scene.waited(), lengths(&[2, 2]));
    assert_eq!(scene.decide("a", 2, "ABORT"), ok());
    assert_eq!(scene.decide("b", 2, "ABORT"), ok());
    assert_eq!(scene.prepare(&on_b(6, 7)), Some(lengths(&[2])), "nothing is claimed any more");
}

#[test]
fn a_key_tells_what_became_of_a_transaction_and_refuses_what_it_does_not_know() {
    let mut scene = Scene::new();
    let resolve = |scene: &mut Scene, key: &str, id: u128| match scene
        .ask(&format!("SIDLE.TX RESOLVE {key} {}", TransactionId(id)))
    {
        Value::Bulk(bytes) => {
            let locks = Locks::read(&bytes).expect("what is at a key");
            match locks.look(TransactionId(id)) {
                Status::Prepared(entry) => format!("prepared {}", String::from_utf8_lossy(entry.reply)),
                Status::Committed(entry) => format!("committed {}", String::from_utf8_lossy(entry.reply)),
                other => format!("{other:?}"),
            }
        }
        Value::Null => "refused".to_owned(),
        other => format!("{other:?}"),
    };
    let commands = [(None, "APPEND a x")];
    let part = |id| Part { id, commands: &commands, ..Part::default() };
    assert!(scene.prepare(&part(1)).is_some());
    assert_eq!(resolve(&mut scene, "a", 1), "prepared *1\r\n:1\r\n");
    assert!(refuses(&scene.prepare(&part(1)).unwrap(), "SIDLETWICE "));
    assert_eq!(scene.decide("a", 1, "COMMIT"), ok());
    assert_eq!(resolve(&mut scene, "a", 1), "committed *1\r\n:1\r\n");
    assert!(refuses(&scene.decide("a", 1, "ABORT"), "SIDLECONTRADICTED "));
    // X3.
    assert_eq!(resolve(&mut scene, "a", 2), "refused");
    assert!(refuses(&scene.prepare(&part(2)).unwrap(), "SIDLEREFUSED "));
    for (word, id) in [("FORGET", 1), ("FORGET", 2)] {
        assert_eq!(scene.ask(&format!("SIDLE.TX {word} a {}", TransactionId(id))), ok());
    }
    assert_eq!(resolve(&mut scene, "a", 1), "refused", "it is forgotten");
    let late = Part { issued: NOW_MS - 2 * LIFE_MS - 1, ..part(3) };
    assert!(refuses(&scene.prepare(&late).unwrap(), "SIDLELATE "));
}

#[test]
fn a_part_that_is_alone_is_committed_at_once_and_its_first_key_keeps_that() {
    let mut scene = Scene::new();
    let commands = [(Some("$-1\r\n"), "GET a"), (None, "SET a 1"), (None, "SADD s x y"), (None, "DEL b")];
    let part = Part { marks: 1, list: &["a"], commands: &commands, ..Part::default() };
    assert_eq!(scene.ask("SET b 1"), ok());
    let replies = Value::Array(vec![ok(), Value::Integer(2), Value::Integer(1)]);
    assert_eq!(scene.prepare(&part), Some(replies));
    assert_eq!(scene.ask("MGET a b"), Value::Array(vec![bulk("1"), Value::Null]));
    assert_eq!(scene.ask("SCARD s"), Value::Integer(2));
    assert!(refuses(&scene.prepare(&part).unwrap(), "SIDLE"), "it does not run twice");
    assert_eq!(scene.ask("SCARD s"), Value::Integer(2));
    assert_eq!(scene.ask("DBSIZE"), Value::Integer(2));
}

#[test]
fn errors_of_commands_end_a_part_or_are_its_replies() {
    let mut scene = Scene::new();
    assert_eq!(scene.ask("SET a text"), ok());
    let commands = [(None, "SET b 1"), (None, "INCR a")];
    let part = |marks| Part { marks, first: "a", list: &["a", "b"], commands: &commands, ..Part::default() };
    assert!(refuses(&scene.prepare(&part(0)).unwrap(), "ERR value is not an integer"));
    assert_eq!(scene.ask("GET b"), Value::Null, "nothing of it was done");
    let Value::Array(replies) = scene.prepare(&part(2)).unwrap() else { panic!("no vote") };
    assert_eq!(replies[0], ok());
    assert!(refuses(&replies[1], "ERR value is not an integer"));
    assert_eq!(scene.decide("b", 1, "COMMIT"), ok());
    assert_eq!(scene.decide("a", 1, "COMMIT"), ok());
    assert_eq!(scene.ask("MGET a b"), Value::Array(vec![bulk("text"), bulk("1")]));
}

#[test]
fn what_is_no_part_is_refused_with_words() {
    let mut scene = Scene::new();
    let good: &[Command<'_>] = &[(None, "SET a 1")];
    let bad = |commands| Part { commands, ..Part::default() };
    for (part, begin) in [
        (bad(&[(None, "PING")]), "ERR "),
        (bad(&[(None, "BLPOP a 1")]), "ERR 'blpop' cannot be part"),
        (bad(&[(None, "FLUSHALL")]), "ERR "),
        (bad(&[(None, "NONSENSE a")]), "ERR a part has commands"),
        (bad(&[(None, "SET a")]), "ERR a part has commands"),
        (Part { list: &[], ..bad(good) }, "ERR the part with a transaction's first key"),
        (Part { first: "z", ..bad(good) }, "ERR the part with a transaction's first key"),
        (Part { list: &["b", "a"], ..bad(good) }, "ERR the part with a transaction's first key"),
        (Part { marks: 4, ..bad(good) }, "ERR a part's marks are 0 to 3"),
    ] {
        let reply = scene.prepare(&part).unwrap();
        assert!(refuses(&reply, begin), "{begin}: {reply:?}");
    }
    let mut words = bad(good).words();
    words[9 + 1] = b"9".to_vec();
    scene.client.send(&words.iter().map(Vec::as_slice).collect::<Vec<_>>());
    while scene.client.serve(&mut scene.node.worker, scene.node.now) {}
    assert!(refuses(&scene.client.receive().unwrap(), "ERR a part has commands"));
    let mut words = bad(good).words();
    words[8] = b"2".to_vec();
    scene.client.send(&words.iter().map(Vec::as_slice).collect::<Vec<_>>());
    while scene.client.serve(&mut scene.node.worker, scene.node.now) {}
    assert!(refuses(&scene.client.receive().unwrap(), "ERR the part's commands have 1 keys"));
    for (request, begin) in [
        ("SIDLE.TX DECIDE a x COMMIT", "ERR a transaction's id is 32 hex digits"),
        ("SIDLE.TX DECIDE a 00000000000000000000000000000001 MAYBE", "ERR a decision is COMMIT or ABORT"),
        ("GET \0sidle-locks\0a", "ERR keys that begin"),
        ("MSET b 1 \0sidle-locks\0a 2", "ERR keys that begin"),
    ] {
        assert!(refuses(&scene.ask(request), begin), "{request}");
    }
    assert_eq!(scene.ask("DBSIZE"), Value::Integer(0));
}

/// A vote that a flush forgot would count as none, though others have committed.
#[test]
fn a_flush_waits_for_votes_and_keeps_what_became_of_them() {
    for flush in ["FLUSHALL", "EXEC"] {
        let mut scene = Scene::new();
        assert_eq!(scene.ask("MSET a 1 b 1 c 1"), ok());
        assert_eq!(scene.ask(&format!("SIDLE.TX RESOLVE c {}", TransactionId(7))), Value::Null);
        let commands = [(None, "INCR a")];
        let part = Part { commands: &commands, list: &["a", "z"], ..Part::default() };
        assert_eq!(scene.prepare(&part), Some(Value::Array(vec![Value::Integer(2)])));
        if flush == "EXEC" {
            std::mem::swap(&mut scene.client, &mut scene.other);
            for request in ["MULTI", "FLUSHALL", "SET b 5"] {
                scene.ask(request);
            }
            std::mem::swap(&mut scene.client, &mut scene.other);
        }
        scene.waits(flush);
        // Others go on, but no key votes.
        assert_eq!(scene.ask("INCR b"), Value::Integer(2));
        let commands = [(None, "INCR b")];
        let younger = Part { id: 2, commands: &commands, first: "b", list: &["b", "z"], ..Part::default() };
        let reply = scene.prepare(&younger).unwrap();
        assert!(refuses(&reply, "SIDLELOCKED "), "{reply:?}");
        assert_eq!(scene.decide("a", 1, "COMMIT"), ok());
        let (reply, left) = match flush {
            "FLUSHALL" => (ok(), Value::Null),
            _ => (Value::Array(vec![ok(), ok()]), bulk("5")),
        };
        assert_eq!(scene.waited(), reply);
        assert_eq!(scene.ask("MGET a b c"), Value::Array(vec![Value::Null, left.clone(), Value::Null]));
        let known = scene.ask(&format!("SIDLE.TX RESOLVE a {}", TransactionId(1)));
        assert!(matches!(known, Value::Bulk(_)), "its outcome stays: {known:?}");
        let commands = [(None, "INCR c")];
        let refused = Part { id: 7, commands: &commands, first: "c", list: &["c"], ..Part::default() };
        assert!(refuses(&scene.prepare(&refused).unwrap(), "SIDLEREFUSED "), "{flush}");
        assert!(matches!(scene.prepare(&younger), Some(Value::Array(_))), "the flush has ended");
        assert_eq!(scene.ask("DBSIZE"), Value::Integer(i64::from(left != Value::Null)));
    }
}
