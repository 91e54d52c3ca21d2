//! Memory as clients see it: expired keys never prevent a write.

use sidle_node::testing::{SoloNode, TestClient};
use sidle_resp::Value;
use sidle_store::CleanOutcome;

const LIMIT: u64 = 16 << 20;

fn set(node: &mut SoloNode, client: &mut TestClient, key: &str, bytes: usize, life_ms: Option<u64>) -> Value {
    let (value, ttl) = (vec![b'v'; bytes], life_ms.unwrap_or(0).to_string());
    let mut args: Vec<&[u8]> = vec![b"SET", key.as_bytes(), &value];
    if life_ms.is_some() {
        args.extend([&b"PX"[..], ttl.as_bytes()]);
    }
    client.send(&args);
    while client.serve(&mut node.worker, node.now) {}
    client.receive().expect("a node that owns everything answers at once")
}

fn ok() -> Value {
    Value::Simple("OK".into())
}

/// Without ticks: the writes alone make room, each for itself.
#[test]
fn a_node_full_of_expired_keys_refuses_no_write() {
    // Everything expires; every second key does; one in ten does, spread over all segments.
    for (one_in, bytes) in [(1, 100), (1, 3_000), (1, 100_000), (2, 100), (2, 20_000), (10, 100)] {
        let mut node = SoloNode::with_memory(LIMIT);
        let mut client = node.connect();
        let mut filled = 0;
        let ttl = |number: u64| number.is_multiple_of(one_in).then_some(1_000);
        while set(&mut node, &mut client, &format!("{filled:08}"), bytes, ttl(filled)) == ok() {
            filled += 1;
        }
        let before = node.parts.store.len();
        assert_eq!(before, filled);
        node.now.wall.0 += 1_001;
        // A tenth of the keys is spread too thinly to free every last byte.
        let again = filled.div_ceil(one_in) * if one_in == 1 { 95 } else { 70 } / 100;
        for number in 0..again {
            let reply = set(&mut node, &mut client, &format!("new {number:08}"), bytes, None);
            assert_eq!(
                reply,
                ok(),
                "{bytes} bytes, 1 in {one_in}: {number} of {again}, {:?}",
                node.parts.store.memory()
            );
        }
    }
}

fn expired_keys(node: &mut SoloNode, client: &mut TestClient) -> u64 {
    let Value::Bulk(info) = node.ask(client, "INFO stats") else { panic!("INFO is a text") };
    let info = String::from_utf8(info).expect("it is a text");
    let line = info.lines().find_map(|line| line.strip_prefix("expired_keys:")).expect("the line");
    line.parse().expect("a number")
}

/// As in Redis, where every command first looks the key up.
#[test]
fn a_key_that_had_expired_when_it_was_written_over_counts_as_expired() {
    for (writes, expired) in [
        ("SET a 2", 1),
        ("SETEX a 5 2", 1),
        ("GETSET a 2", 1),
        ("APPEND a 2", 1),
        ("MSET a 2 b 2 c 2", 2),
        ("MSET a 2 a 3", 1),
        ("MSETNX a 2 b 3", 2),
    ] {
        let mut node = SoloNode::new();
        let mut client = node.connect();
        for key in ["a", "b"] {
            node.ask(&mut client, &format!("SET {key} 1 PX 10"));
        }
        // Not yet.
        node.ask(&mut client, "SET a 1 KEEPTTL");
        assert_eq!(expired_keys(&mut node, &mut client), 0, "{writes}");
        node.now.wall.0 += 11;
        node.ask(&mut client, writes);
        assert_eq!(expired_keys(&mut node, &mut client), expired, "{writes}");
    }
}

/// A refusal checks for expired keys once a millisecond, not for each write.
#[test]
fn a_full_node_without_expired_keys_refuses_with_an_error() {
    let mut node = SoloNode::with_memory(LIMIT);
    let mut client = node.connect();
    let (mut filled, mut refused) = (0, 0);
    // The first refusals make the cleaner check once more.
    while refused < 100 {
        match set(&mut node, &mut client, &format!("{filled:08}"), 100, Some(1_000_000)) == ok() {
            true => filled += 1,
            false => refused += 1,
        }
    }
    refused = 0;
    for number in 0..1_000 {
        node.now.wall.0 += number % 2;
        let reply = set(&mut node, &mut client, &format!("new {number}"), 1_000, None);
        let is_oom = matches!(&reply, Value::Error(text) if text.starts_with("OOM"));
        assert!(is_oom || reply == ok(), "{reply:?}");
        refused += u64::from(is_oom);
    }
    // Some writes use the rest of the open segment and of replaced tables.
    assert!(refused > 950, "{refused}");
    assert_eq!(node.parts.store.len(), filled + 1_000 - refused);
}

/// What COPY, RENAME and SETRANGE write is not among their words: room is made for it all the same.
#[test]
fn a_large_value_that_is_not_in_the_request_has_room_made_for_it() {
    const BIG_BYTES: usize = 3 << 20;
    for (request, reply) in [
        ("COPY big other", Value::Integer(1)),
        ("RENAME big other", ok()),
        ("SETRANGE big 3145728 x", Value::Integer(BIG_BYTES as i64 + 1)),
        ("SETRANGE other 3145728 x", Value::Integer(BIG_BYTES as i64 + 1)),
        ("EXPIRE big 100", Value::Integer(1)),
    ] {
        let mut node = SoloNode::with_memory(LIMIT);
        let mut client = node.connect();
        assert_eq!(set(&mut node, &mut client, "big", BIG_BYTES, None), ok());
        let mut filled = 0;
        while set(&mut node, &mut client, &format!("{filled:08}"), 1_000, Some(1_000)) == ok() {
            filled += 1;
        }
        node.now.wall.0 += 1_001;
        assert_eq!(node.ask(&mut client, request), reply, "{request}");
    }
}

/// Without room they change nothing, and the limit holds.
#[test]
fn a_large_value_for_which_there_is_no_room_stays_where_it_is() {
    const BIG_BYTES: usize = 3 << 20;
    let mut node = SoloNode::with_memory(LIMIT);
    let mut client = node.connect();
    assert_eq!(set(&mut node, &mut client, "big", BIG_BYTES, Some(1_000_000)), ok());
    let mut filled = 0;
    while set(&mut node, &mut client, &format!("{filled:08}"), 1_000, None) == ok() {
        filled += 1;
    }
    for request in ["COPY big other", "RENAME big other", "RENAMENX big other", "SETRANGE other 3145728 x"] {
        let reply = node.ask(&mut client, request);
        assert!(matches!(&reply, Value::Error(text) if text.starts_with("OOM")), "{request}: {reply:?}");
        assert_eq!(node.ask(&mut client, "EXISTS big other"), Value::Integer(1), "{request}");
        assert_eq!(node.ask(&mut client, "STRLEN big"), Value::Integer(BIG_BYTES as i64), "{request}");
        assert_eq!(node.ask(&mut client, "PTTL big"), Value::Integer(1_000_000), "{request}");
    }
}

/// The work of active expiry is proportional to the number of expired keys, whatever else there is.
#[test]
fn expiry_looks_at_little_more_than_what_has_expired() {
    let mut node = SoloNode::with_memory(64 << 20);
    let mut client = node.connect();
    for number in 0..100_000u64 {
        let ttl = if number < 50_000 { 1_000 } else { 1_000_000 };
        // Half of the slots have nothing that expires soon.
        let tag = if number < 50_000 { number % 500 } else { 500 + number % 500 };
        set(&mut node, &mut client, &format!("{{{tag}}}{number}"), 10, Some(ttl));
    }
    let (mut looked, mut removed, mut slices) = (0, 0, 0);
    node.now.wall.0 += 1_001;
    while removed < 50_000 {
        let sweep = node.worker.expire(node.now, 256);
        (looked, removed, slices) = (looked + sweep.looked, removed + sweep.removed, slices + 1);
        assert!(slices < 1_000, "{removed} removed of {looked}");
    }
    assert!(looked < 60_000, "{looked}");
    let idle = node.worker.expire(node.now, 256);
    assert_eq!((idle.looked, idle.next), (0, None));
}

/// APPEND and SETRANGE at the end cost as much as they add, and read back as written.
#[test]
fn a_value_is_appended_to_where_it_lies() {
    let mut node = SoloNode::with_memory(LIMIT);
    let mut client = node.connect();
    let mut expected = Vec::new();
    let mut places = Vec::new();
    for step in 0..20_000u32 {
        let part = [step as u8; 100];
        let at = expected.len().to_string();
        // Every second one leaves a gap of one zero.
        let beyond = (expected.len() + 1).to_string();
        match step % 4 {
            0 | 1 => client.send(&[b"APPEND", b"log", &part]),
            2 => client.send(&[b"SETRANGE", b"log", at.as_bytes(), &part]),
            _ => {
                expected.push(0);
                client.send(&[b"SETRANGE", b"log", beyond.as_bytes(), &part]);
            }
        }
        expected.extend_from_slice(&part);
        while client.serve(&mut node.worker, node.now) {}
        assert_eq!(client.receive(), Some(Value::Integer(expected.len() as i64)));
        let guard = node.parts.store.pin();
        let record = guard.get(sidle_types::HashedKey::new(b"log")).value().expect("it is there");
        if record.value().len() > 32 << 10 {
            places.push(record.value().as_ptr() as usize);
        }
    }
    places.dedup();
    assert!(places.len() < 8, "copied {} times", places.len());
    client.send(&[b"SETRANGE", b"log", b"1000", b"inside"]);
    client.send(&[b"APPEND", b"log", b"end"]);
    client.send(&[b"GET", b"log"]);
    while client.serve(&mut node.worker, node.now) {}
    expected[1000..1006].copy_from_slice(b"inside");
    let length = expected.len() as i64;
    expected.extend_from_slice(b"end");
    assert_eq!(client.receive(), Some(Value::Integer(length)));
    assert_eq!(client.receive(), Some(Value::Integer(length + 3)));
    assert_eq!(client.receive(), Some(Value::Bulk(expected)));
}

fn text(reply: Value) -> String {
    match reply {
        Value::Bulk(text) => String::from_utf8(text).expect("it is a text"),
        other => panic!("no text: {other:?}"),
    }
}

/// One request that takes turns, its reply, and how many turns there were.
fn ask_in_turns(node: &mut SoloNode, client: &mut TestClient, request: &str) -> (Value, usize) {
    let args: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
    client.send(&args);
    for turns in 1..10_000 {
        while client.serve(&mut node.worker, node.now) {}
        if let Some(reply) = client.receive() {
            return (reply, turns);
        }
        while let Some(ticket) = node.worker.poll_woken() {
            client.wake(ticket);
        }
    }
    panic!("{request} takes turns without end");
}

/// What a flush left with the process goes back to the system, and can be taken again.
#[test]
fn memory_purge_returns_the_pages_of_free_segments() {
    const MORE: u64 = 128 << 20;
    let mut node = SoloNode::with_memory(MORE);
    let mut client = node.connect();
    for round in ["first", "second"] {
        for number in 0..60_000 {
            assert_eq!(set(&mut node, &mut client, &format!("{number:08}"), 1_000, None), ok(), "{round}");
        }
        assert_eq!(ask_in_turns(&mut node, &mut client, "FLUSHALL").0, ok());
        let store = &node.parts.store;
        while store.cleaner().step(1 << 20) == CleanOutcome::Progress {}
        let (idle, purgeable) = (store.idle_bytes(), store.purgeable_bytes());
        assert!(idle > 48 << 20 && purgeable > 16 << 20, "{round}: {purgeable} of {idle}");
        let (reply, turns) = ask_in_turns(&mut node, &mut client, "MEMORY PURGE");
        assert_eq!((reply, turns), (ok(), 1 + (purgeable >> 24) as usize), "{round}");
        // What is kept ready for the next writes stays.
        let store = &node.parts.store;
        assert_eq!((store.idle_bytes(), store.purgeable_bytes()), (idle - purgeable, 0), "{round}");
        assert_eq!(node.ask(&mut client, "MEMORY PURGE"), ok());
    }
    node.ask(&mut client, "MULTI");
    node.ask(&mut client, "MEMORY PURGE");
    assert_eq!(node.ask(&mut client, "EXEC"), Value::Array(vec![ok()]));
}

#[test]
fn memory_doctor_sees_a_node_fill() {
    let mut node = SoloNode::with_memory(LIMIT);
    let mut client = node.connect();
    let report = text(node.ask(&mut client, "MEMORY DOCTOR"));
    assert!(report.starts_with("Nothing stands out"), "{report}");
    let mut filled = 0;
    while set(&mut node, &mut client, &format!("{filled:08}"), 1_000, None) == ok() {
        filled += 1;
    }
    let report = text(node.ask(&mut client, "MEMORY DOCTOR"));
    assert!(report.contains("OOM error") && report.contains("maxmemory (16.00M)"), "{report}");
    assert!(text(node.ask(&mut client, "MEMORY MALLOC-STATS")).contains("limit: 16777216 (16.00M)"));
    let Value::Array(figures) = node.ask(&mut client, "MEMORY STATS") else { panic!("pairs") };
    let at =
        figures.iter().position(|word| *word == Value::Bulk(b"keys.count".to_vec())).expect("it is there");
    assert_eq!(figures[at + 1], Value::Integer(filled));
}
