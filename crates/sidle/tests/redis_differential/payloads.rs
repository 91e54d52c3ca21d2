//! Payloads of each server, restored by the other one.

use crate::compare::value;
use crate::encode;
use crate::server::{Both, Connection};
use sidle_resp::Value;
use sidle_testbed::Random;

fn ask(connection: &mut Connection, words: &[&[u8]]) -> Value {
    let words: Vec<Vec<u8>> = words.iter().map(|word| word.to_vec()).collect();
    value(&connection.ask(&encode(&words)))
}

fn dumped(connection: &mut Connection, key: &[u8]) -> Vec<u8> {
    match ask(connection, &[b"DUMP", key]) {
        Value::Bulk(payload) => payload,
        other => panic!("no payload: {other:?}"),
    }
}

/// Has one server set a value and the other one restore it.
fn cross(value: &[u8], from: &mut Connection, to: &mut Connection) {
    let ok = Value::Simple("OK".into());
    assert_eq!(ask(from, &[b"SET", b"a", value]), ok);
    let payload = dumped(from, b"a");
    let restored = ask(to, &[b"RESTORE", b"b", b"0", &payload, b"REPLACE"]);
    assert_eq!(restored, ok, "{}", payload.escape_ascii());
    assert_eq!(ask(to, &[b"GET", b"b"]), Value::Bulk(value.to_vec()), "{}", payload.escape_ascii());
}

#[test]
fn each_restores_what_the_other_dumps() {
    const RANDOM_VALUES: u64 = 300;
    let Some(mut both) = Both::start() else { return };
    assert_eq!(
        ask(&mut both.redis, &[b"CONFIG", b"SET", b"rdbcompression", b"yes"]),
        Value::Simple("OK".into())
    );
    let lengths = [0, 1, 20, 21, 63, 64, 100, 16_383, 16_384, 70_000, 3_000_000];
    let mut values: Vec<Vec<u8>> = lengths.iter().map(|&length| b"x".repeat(length)).collect();
    values.push((0..200_000u32).flat_map(u32::to_be_bytes).collect());
    values.extend(["0", "-1", "127", "128", "-32769", "2147483648"].map(|text| text.as_bytes().to_vec()));
    // Words of few letters are compressed in many ways.
    values.extend((0..RANDOM_VALUES).map(|seed| {
        let mut random = Random::new(seed);
        let (length, letters) = (random.index(600), 1 + random.index(5));
        (0..length).map(|_| b'a' + random.index(letters) as u8).collect()
    }));
    for value in values {
        cross(&value, &mut both.redis, &mut both.sidle);
        cross(&value, &mut both.sidle, &mut both.redis);
    }
}

/// Has one server make a hash and the other one restore it.
fn cross_hash(fields: usize, value: &[u8], from: &mut Connection, to: &mut Connection) {
    ask(from, &[b"DEL", b"a"]);
    for field in 0..fields {
        let field = field.to_string();
        assert_eq!(ask(from, &[b"HSET", b"a", field.as_bytes(), value]), Value::Integer(1));
    }
    let payload = dumped(from, b"a");
    let restored = ask(to, &[b"RESTORE", b"b", b"0", &payload, b"REPLACE"]);
    assert_eq!(restored, Value::Simple("OK".into()), "{}", payload.escape_ascii());
    assert_eq!(ask(to, &[b"HLEN", b"b"]), Value::Integer(fields as i64));
    for field in 0..fields {
        let field = field.to_string();
        assert_eq!(ask(to, &[b"HGET", b"b", field.as_bytes()]), Value::Bulk(value.to_vec()));
    }
    let encoding: fn(&mut Connection, &[u8]) -> Value =
        |server, key| ask(server, &[b"OBJECT", b"ENCODING", key]);
    assert_eq!(encoding(to, b"b"), encoding(from, b"a"), "{fields}");
}

/// Has one server make a set and the other one restore it.
fn cross_set(members: &[String], from: &mut Connection, to: &mut Connection) {
    ask(from, &[b"DEL", b"a"]);
    for member in members {
        assert_eq!(ask(from, &[b"SADD", b"a", member.as_bytes()]), Value::Integer(1));
    }
    let payload = dumped(from, b"a");
    let restored = ask(to, &[b"RESTORE", b"b", b"0", &payload, b"REPLACE"]);
    assert_eq!(restored, Value::Simple("OK".into()), "{}", payload.escape_ascii());
    assert_eq!(ask(to, &[b"SCARD", b"b"]), Value::Integer(members.len() as i64));
    for member in members {
        assert_eq!(ask(to, &[b"SISMEMBER", b"b", member.as_bytes()]), Value::Integer(1));
    }
    let encoding: fn(&mut Connection, &[u8]) -> Value =
        |server, key| ask(server, &[b"OBJECT", b"ENCODING", key]);
    assert_eq!(encoding(to, b"b"), encoding(from, b"a"), "{members:?}");
}

#[test]
fn each_restores_lists_that_the_other_dumps() {
    let Some(mut both) = Both::start() else { return };
    for (items, bytes) in [(1, 1), (3, 10), (2_000, 20), (3, 9_000), (2, 3_000_000)] {
        let item = |number: usize| format!("{number}{}", "x".repeat(bytes));
        for server in [&mut both.redis, &mut both.sidle] {
            ask(server, &[b"DEL", b"a"]);
            for number in 0..items {
                ask(server, &[b"RPUSH", b"a", item(number).as_bytes()]);
            }
        }
        let payloads = [dumped(&mut both.redis, b"a"), dumped(&mut both.sidle, b"a")];
        for (payload, to) in payloads.iter().rev().zip([&mut both.redis, &mut both.sidle]) {
            let restored = ask(to, &[b"RESTORE", b"b", b"0", payload, b"REPLACE"]);
            assert_eq!(restored, Value::Simple("OK".into()), "{items} of {bytes}");
            let expected = (0..items).map(|number| Value::Bulk(item(number).into_bytes())).collect();
            assert_eq!(ask(to, &[b"LRANGE", b"b", b"0", b"-1"]), Value::Array(expected));
        }
    }
}

#[test]
fn each_restores_sorted_sets_that_the_other_dumps() {
    let Some(mut both) = Both::start() else { return };
    for (members, step, bytes) in
        [(1, 1.0, 1), (100, 0.5, 10), (128, 1e20, 10), (129, -1.25, 10), (2, 3.0, 65)]
    {
        for server in [&mut both.redis, &mut both.sidle] {
            ask(server, &[b"DEL", b"a"]);
            for number in 0..members {
                let (score, member) =
                    (f64::from(number + 1) * step, format!("{number}{}", "x".repeat(bytes)));
                ask(server, &[b"ZADD", b"a", score.to_string().as_bytes(), member.as_bytes()]);
            }
        }
        let all: fn(&mut Connection, &[u8]) -> Value =
            |server, key| ask(server, &[b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"]);
        let payloads = [dumped(&mut both.redis, b"a"), dumped(&mut both.sidle, b"a")];
        for (payload, to) in payloads.iter().rev().zip([&mut both.redis, &mut both.sidle]) {
            let restored = ask(to, &[b"RESTORE", b"b", b"0", payload, b"REPLACE"]);
            assert_eq!(restored, Value::Simple("OK".into()), "{members} of {bytes}");
            assert_eq!(all(to, b"b"), all(to, b"a"));
            let encoding = |key: &'static [u8]| [&b"OBJECT"[..], b"ENCODING", key];
            assert_eq!(ask(to, &encoding(b"b")), ask(to, &encoding(b"a")));
        }
        assert_eq!(all(&mut both.redis, b"b"), all(&mut both.sidle, b"b"));
    }
}

#[test]
fn each_restores_sets_that_the_other_dumps() {
    let Some(mut both) = Both::start() else { return };
    let numbers = |count: i64, step: i64| (0..count).map(|number| (number * step - 7).to_string()).collect();
    let mut sets: Vec<Vec<String>> =
        vec![numbers(1, 1), numbers(300, 1), numbers(512, 100_000), numbers(513, 1), numbers(9, 1 << 40)];
    sets.push(vec!["a".to_owned(), "1".to_owned(), "x".repeat(20_000)]);
    for set in sets {
        cross_set(&set, &mut both.redis, &mut both.sidle);
        cross_set(&set, &mut both.sidle, &mut both.redis);
    }
}

#[test]
fn each_restores_hashes_that_the_other_dumps() {
    let Some(mut both) = Both::start() else { return };
    for (fields, value) in [
        (1, &b"v"[..]),
        (3, b"-300"),
        (200, b"70000"),
        (512, b"a value of some length"),
        (513, b"1"),
        (2, &[b'x'; 65]),
        (2, &[b'x'; 20_000]),
    ] {
        cross_hash(fields, value, &mut both.redis, &mut both.sidle);
        cross_hash(fields, value, &mut both.sidle, &mut both.redis);
    }
}

#[test]
fn collections_are_refused_by_name() {
    let Some(mut both) = Both::start() else { return };
    ask(&mut both.redis, &[b"XADD", b"c", b"1-1", b"a", b"1"]);
    let payload = dumped(&mut both.redis, b"c");
    let text = "ERR Bad data format: the payload holds a stream, which is not known here";
    assert_eq!(ask(&mut both.sidle, &[b"RESTORE", b"c", b"0", &payload]), Value::Error(text.into()));
}
