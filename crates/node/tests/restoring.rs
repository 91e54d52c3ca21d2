//! RESTORE of large collections: it goes on over many turns, in which others are served, and then happens at
//! one moment, or not at all.

use sidle_node::Now;
use sidle_node::testing::{SoloNode, TestClient, TestLog};
use sidle_rdb::Dumped;
use sidle_resp::Value;
use sidle_types::{MonotonicUs, WallMs};

const NOW: Now =
    Now { mono: MonotonicUs(1_000_000), wall: WallMs(1_700_000_000_000), wall_micros: 0, reading_ns: 0 };
const ELEMENTS: usize = 30_000;
const MEMORY_BYTES: u64 = 16 << 20;
/// What a store takes to know which numbers of collections were used, up to some hundreds of them.
const NUMBERS_BYTES: u64 = 32 << 10;

fn ok() -> Value {
    Value::Simple("OK".into())
}

fn error(text: &str) -> Value {
    Value::Error(text.into())
}

fn names() -> Vec<Vec<u8>> {
    (0..ELEMENTS).map(|number| format!("name {number}").into_bytes()).collect()
}

fn set_of(members: &[&[u8]]) -> Vec<u8> {
    sidle_rdb::dump(Dumped::Set { members, is_intset: false }).parts().concat()
}

fn sorted_set_of(members: &[(&[u8], f64)]) -> Vec<u8> {
    sidle_rdb::dump(Dumped::SortedSet { members, is_small: false }).parts().concat()
}

/// A large payload of each type.
fn payloads() -> [Vec<u8>; 4] {
    let names = names();
    let names: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
    let pairs: Vec<(&[u8], &[u8])> = names.iter().map(|name| (*name, &name[4..])).collect();
    let hash = Dumped::Hash { pairs: &pairs, is_small: false };
    // Many have the score of others.
    let score = |number: usize| (number * 7919 % ELEMENTS / 100) as f64 - 50.0;
    let scored: Vec<(&[u8], f64)> = (0..ELEMENTS).map(|number| (names[number], score(number))).collect();
    [
        set_of(&names),
        sidle_rdb::dump(hash).parts().concat(),
        sidle_rdb::dump(Dumped::List(&names)).parts().concat(),
        sorted_set_of(&scored),
    ]
}

/// Sends a RESTORE and runs it for so many turns; its reply, if it has one.
fn restore(
    node: &mut SoloNode,
    client: &mut TestClient,
    (payload, options): (&[u8], &[&[u8]]),
    turns: usize,
) -> Option<Value> {
    let args: Vec<&[u8]> = [&b"RESTORE"[..], b"k", b"0", payload].iter().chain(options).copied().collect();
    client.send(&args);
    go_on(node, client, turns)
}

fn go_on(node: &mut SoloNode, client: &mut TestClient, turns: usize) -> Option<Value> {
    for _ in 0..turns {
        client.serve(&mut node.worker, NOW);
        if let Some(reply) = client.receive() {
            return Some(reply);
        }
        node.worker.turn();
        while let Some(ticket) = node.worker.poll_woken() {
            client.wake(ticket);
        }
    }
    None
}

fn all(node: &mut SoloNode, client: &mut TestClient) -> Vec<Value> {
    let kind = node.ask(client, "TYPE k");
    let request = match &kind {
        Value::Simple(kind) if kind == "set" => "SMEMBERS k",
        Value::Simple(kind) if kind == "hash" => "HGETALL k",
        Value::Simple(kind) if kind == "zset" => "ZRANGE k 0 -1 WITHSCORES",
        _ => "LRANGE k 0 -1",
    };
    let reply = node.ask(client, request);
    let (Value::Array(elements) | Value::Set(elements)) = reply else { panic!("{kind:?}: {reply:?}") };
    elements
}

/// What others see while it goes on is as if it had not begun; then it is as if done in one go.
#[test]
fn it_is_seen_at_one_moment_and_as_in_one_go() {
    for payload in payloads() {
        let mut node = SoloNode::new();
        let (mut client, mut other) = (node.connect(), node.connect());
        assert_eq!(node.ask(&mut other, "MULTI"), ok());
        other.send(&[b"RESTORE", b"k", b"0", &payload]);
        assert_eq!(go_on(&mut node, &mut other, 3), Some(Value::Simple("QUEUED".into())));
        assert_eq!(node.ask(&mut other, "EXEC"), Value::Array(vec![ok()]));
        let expected = (all(&mut node, &mut other), node.ask(&mut other, "OBJECT ENCODING k"));
        assert_eq!(node.ask(&mut other, "DEL k"), Value::Integer(1));
        let mut turns = 1;
        let mut reply = restore(&mut node, &mut client, (&payload, &[]), 1);
        while reply.is_none() {
            assert_eq!(node.ask(&mut other, "EXISTS k"), Value::Integer(0), "turn {turns}");
            (reply, turns) = (go_on(&mut node, &mut client, 1), turns + 1);
        }
        assert_eq!((reply, turns > 10), (Some(ok()), true), "{turns} turns");
        let found = (all(&mut node, &mut other), node.ask(&mut other, "OBJECT ENCODING k"));
        assert!(expected == found);
        assert_eq!(node.ask(&mut other, "DBSIZE"), Value::Integer(1));
    }
}

/// The key is judged again at each turn: who wrote it meanwhile was before.
#[test]
fn a_write_in_between_is_before_it() {
    let [payload, ..] = payloads();
    for half in [3, 15] {
        let mut node = SoloNode::new();
        let (mut client, mut other) = (node.connect(), node.connect());
        assert_eq!(restore(&mut node, &mut client, (&payload, &[]), half), None);
        assert_eq!(node.ask(&mut other, "SET k 1"), ok());
        let busy = error("BUSYKEY Target key name already exists.");
        assert_eq!(go_on(&mut node, &mut client, 1000), Some(busy));
        assert_eq!(node.ask(&mut other, "GET k"), Value::Bulk(b"1".to_vec()));
        assert_eq!(restore(&mut node, &mut client, (&payload, &[b"REPLACE"]), half), None);
        assert_eq!(node.ask(&mut other, "SET k 2"), ok());
        assert_eq!(go_on(&mut node, &mut client, 1000), Some(ok()));
        assert_eq!(node.ask(&mut other, "SCARD k"), Value::Integer(ELEMENTS as i64));
        assert_eq!(restore(&mut node, &mut client, (&payload, &[b"REPLACE"]), half), None);
        assert_eq!(node.ask(&mut other, "DEL k"), Value::Integer(1));
        assert_eq!(go_on(&mut node, &mut client, 1000), Some(ok()));
        assert_eq!(restore(&mut node, &mut client, (&payload, &[b"REPLACE"]), half), None);
        other.send(&[b"FLUSHALL"]);
        assert_eq!(go_on(&mut node, &mut other, 10_000), Some(ok()));
        assert_eq!(go_on(&mut node, &mut client, 1000), Some(ok()));
        assert_eq!(node.ask(&mut other, "SCARD k"), Value::Integer(ELEMENTS as i64));
    }
}

/// Of two at one time, each is seen whole where it ends.
#[test]
fn two_of_one_key_do_not_mix() {
    let payloads = payloads();
    let mut node = SoloNode::new();
    let (mut clients, mut other) = ([node.connect(), node.connect()], node.connect());
    for pair in [[0, 1], [1, 0], [2, 3], [3, 2]] {
        let payloads = pair.map(|number| &payloads[number]);
        let expected = payloads.map(|payload| {
            assert_eq!(restore(&mut node, &mut other, (payload, &[b"REPLACE"]), 1000), Some(ok()));
            all(&mut node, &mut other)
        });
        for (client, payload) in clients.iter_mut().zip(payloads) {
            assert_eq!(restore(&mut node, client, (payload, &[b"REPLACE"]), 1), None);
        }
        let mut found = [None, None];
        while found.contains(&None) {
            for (client, found) in clients.iter_mut().zip(&mut found) {
                client.serve(&mut node.worker, NOW);
                if let Some(reply) = client.receive() {
                    assert_eq!(reply, ok());
                    *found = Some(all(&mut node, &mut other));
                }
            }
            while let Some(ticket) = node.worker.poll_woken() {
                clients.iter_mut().for_each(|client| client.wake(ticket));
            }
        }
        assert!(found == expected.map(Some));
    }
}

/// Whatever ends it, what was built is given back: it can be tried for ever in little memory.
#[test]
fn what_does_not_end_is_given_back() {
    let [payload, .., sorted_set] = payloads();
    let mut node = SoloNode::with_memory(16 << 20);
    let names = names();
    let mut twice: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
    twice.push(b"name 7");
    let scored: Vec<(&[u8], f64)> = twice.iter().map(|name| (*name, name.len() as f64)).collect();
    let twice = [set_of(&twice), sorted_set_of(&scored)];
    for (round, half) in (0..100).zip([50, 50, 80, 110].into_iter().cycle()) {
        let (payload, twice) = (if half == 50 { &payload } else { &sorted_set }, &twice[round % 2]);
        let mut client = node.connect();
        assert_eq!(restore(&mut node, &mut client, (payload, &[]), half), None);
        if let Some(ticket) = client.session().ticket() {
            node.worker.forget(ticket);
        }
        drop(client);
        let mut client = node.connect();
        let reply = restore(&mut node, &mut client, (twice, &[]), 1000);
        assert_eq!(reply, Some(error("ERR Bad data format")));
        assert_eq!(node.ask(&mut client, "EXISTS k"), Value::Integer(0));
    }
    let mut wrong = payload;
    wrong[70_000] ^= 1;
    let mut client = node.connect();
    let reply = restore(&mut node, &mut client, (&wrong, &[]), 1000);
    assert_eq!(reply, Some(error("ERR DUMP payload version or checksum are wrong")));
}

/// What it takes beside the payload counts as the connection's: some bytes for each element.
#[test]
fn its_memory_is_counted() {
    for payload in payloads() {
        let is_list = [1, 18].contains(&payload[0]);
        let mut node = SoloNode::new();
        let mut client = node.connect();
        let before = client.session().client.held_bytes();
        let mut reply = restore(&mut node, &mut client, (&payload, &[]), 1);
        let mut most = 0;
        while reply.is_none() {
            most = most.max(client.session().client.held_bytes() - before);
            reply = go_on(&mut node, &mut client, 1);
        }
        let least = if is_list { 0 } else { 4 * ELEMENTS as u64 };
        assert!((least..least + 16_384).contains(&most), "{most} bytes of {}", payload.len());
        assert_eq!(client.session().client.held_bytes(), before);
    }
}

/// Without memory nothing of it is there, and its memory is free for others.
#[test]
fn without_memory_it_is_refused() {
    let mut node = SoloNode::with_memory(16 << 20);
    let names: Vec<Vec<u8>> = (0..200_000).map(|number| format!("{number:0120}").into_bytes()).collect();
    let names: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
    let payload = set_of(&names);
    for _ in 0..3 {
        let mut client = node.connect();
        let Some(Value::Error(text)) = restore(&mut node, &mut client, (&payload, &[]), 10_000) else {
            panic!("it has room")
        };
        assert!(text.starts_with("OOM "), "{text}");
        assert_eq!(node.ask(&mut client, "DBSIZE"), Value::Integer(0));
        let value = "v".repeat(8 << 20);
        assert_eq!(node.ask(&mut client, &format!("SET other {value}")), ok());
        assert_eq!(node.ask(&mut client, "DEL other"), Value::Integer(1));
    }
}

/// What a node has after its process ended in the middle: what it had before, whole.
#[test]
fn killed_it_has_not_happened() {
    let [.., payload] = payloads();
    let former: [&[&str]; 3] = [&[], &["SET k 1"], &["ZADD k 1 a 2 b"]];
    for commands in former {
        let mut log = TestLog::default();
        let mut node = SoloNode::recovered(MEMORY_BYTES, &log);
        let mut client = node.connect();
        commands.iter().for_each(|command| drop(node.ask(&mut client, command)));
        log.step(&node.parts);
        let mut before = SoloNode::recovered(MEMORY_BYTES, &log);
        let (memory, had) = (before.parts.store.memory(), dumped(&mut before));
        // The same log serves all of its lives: what one leaves is in the way of the next.
        for (kills, turns) in (1..).step_by(9).enumerate() {
            let mut node = SoloNode::recovered(MEMORY_BYTES, &log);
            let store = &node.parts.store;
            assert!(store.make_room(3 * MEMORY_BYTES as usize / 4), "{turns} turns: {:?}", store.memory());
            let found = store.memory();
            assert_eq!(found.log_live, memory.log_live, "{turns} turns");
            assert!(found.index <= memory.index + NUMBERS_BYTES, "{turns} turns: {found:?}");
            assert_eq!(dumped(&mut node), had, "{turns} turns");
            let mut client = node.connect();
            let mut reply = restore(&mut node, &mut client, (&payload, &[b"REPLACE"]), 1);
            for _ in 1..turns {
                log.step(&node.parts);
                reply = reply.or_else(|| go_on(&mut node, &mut client, 1));
            }
            log.step(&node.parts);
            if reply.is_some() {
                assert_eq!((reply, kills > 10), (Some(ok()), true), "{kills} kills");
                let whole = dumped(&mut node);
                assert_eq!(dumped(&mut SoloNode::recovered(MEMORY_BYTES, &log)), whole);
                assert_ne!(whole, had);
                break;
            }
        }
    }
}

fn dumped(node: &mut SoloNode) -> Value {
    let mut client = node.connect();
    node.ask(&mut client, "DUMP k")
}
