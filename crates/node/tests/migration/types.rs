//! Collections move as strings do: whole, one owner after the other.

use crate::common::*;
use sidle_node::testing::ClusterSetup;
use sidle_resp::Value;
use sidle_types::{ProtocolVersion, Speaks};

const EVERYTHING: &str = "SLOTS 0-16383";
const HASHES: usize = 40;

fn array(words: &[&str]) -> Value {
    Value::Array(words.iter().map(|word| bulk(word)).collect())
}

/// Hashes that are read, changed and removed before, during and after a move.
#[test]
fn hashes_move_while_they_change() {
    for_every_protocol(|mut scene| {
        for key in keys("hash", HASHES) {
            assert_eq!(scene.ask(0, &format!("HSET {key} a {key} b 2 c 3")), int(3));
        }
        assert_eq!(scene.ask(0, "PEXPIRE hash7 100000000"), int(1));
        let id = scene.start_and_hold(EVERYTHING, 1);
        assert_eq!(scene.client("HGET hash0 a"), bulk("hash0"));
        assert_eq!(scene.client("HSET hash1 a new d 4"), int(1));
        assert_eq!(scene.client("HINCRBY hash2 b 40"), int(42));
        assert_eq!(scene.client("HDEL hash3 a b c"), int(3));
        assert_eq!(scene.client("HSET fresh a 1"), int(1));
        assert_eq!(scene.client("SET hash4 string"), ok());
        assert_eq!(scene.client("HSETNX hash5 a no"), int(0));
        assert_eq!(scene.client("HLEN hash6"), int(3));
        scene.finish(id);
        assert_eq!(scene.ask(1, "HGETALL hash0"), array(&["a", "hash0", "b", "2", "c", "3"]));
        assert_eq!(scene.ask(1, "HGETALL hash1"), array(&["a", "new", "b", "2", "c", "3", "d", "4"]));
        assert_eq!(scene.ask(1, "HVALS hash2"), array(&["hash2", "42", "3"]));
        assert_eq!(scene.ask(1, "EXISTS hash3"), int(0));
        assert_eq!(scene.ask(1, "TYPE hash4"), Value::Simple("string".into()));
        assert_eq!(scene.ask(1, "HKEYS fresh"), array(&["a"]));
        assert_eq!(scene.ask(1, "DBSIZE"), int(HASHES as i64));
        assert!(matches!(scene.ask(1, "PTTL hash7"), Value::Integer(1..)));
        for key in keys("hash", HASHES).iter().skip(5) {
            assert_eq!(scene.ask(1, &format!("HMGET {key} a c")), array(&[key, "3"]));
        }
    });
}

/// A hash of many segments moves like a large string.
#[test]
fn large_hashes_move() {
    for_every_protocol(|mut scene| {
        let long = "x".repeat(100_000);
        for field in 0..30 {
            assert_eq!(scene.ask(0, &format!("HSET large {field} {long}")), int(1));
        }
        let id = scene.start(EVERYTHING, 1);
        scene.finish(id);
        assert_eq!(scene.ask(1, "HLEN large"), int(30));
        assert_eq!(scene.ask(1, "HGET large 17"), bulk(&long));
        assert_eq!(scene.ask(1, "HSTRLEN large 29"), int(100_000));
    });
}

/// Where some nodes may not know collections, nothing but strings is written.
#[test]
fn a_cluster_of_an_earlier_version_takes_no_collections() {
    let founder_speaks = Speaks::only(ProtocolVersion::PREVIOUS);
    let mut scene = Scene::of(ClusterSetup { founder_speaks, ..ClusterSetup::default() });
    assert_eq!(scene.ask(0, "HGET none a"), Value::Null);
    for request in ["HSET h a 1", "HSETNX h a 1", "HINCRBY h a 1"] {
        let Value::Error(text) = scene.ask(0, request) else { panic!("{request} is carried out") };
        assert!(text.contains("SIDLE.UPGRADE"), "{text}");
    }
    assert_eq!(scene.ask(0, "EXISTS h"), int(0));
}

/// Sets that are read, changed and combined before, during and after a move.
#[test]
fn sets_move_while_they_change() {
    for_every_protocol(|mut scene| {
        for key in keys("{s}", 10) {
            assert_eq!(scene.ask(0, &format!("SADD {key} 1 2 3 {key}")), int(4));
        }
        let id = scene.start_and_hold(EVERYTHING, 1);
        assert_eq!(scene.client("SISMEMBER {s}0 2"), int(1));
        assert_eq!(scene.client("SADD {s}1 4 1"), int(1));
        assert_eq!(scene.client("SREM {s}2 1 2 3 {s}2"), int(4));
        assert_eq!(scene.client("SMOVE {s}3 {s}4 {s}3"), int(1));
        assert_eq!(scene.client("SINTERSTORE {s}d {s}5 {s}6"), int(3));
        assert_eq!(scene.client("SINTERCARD 2 {s}7 {s}8"), int(3));
        scene.finish(id);
        assert_eq!(scene.ask(1, "SCARD {s}1"), int(5));
        assert_eq!(scene.ask(1, "EXISTS {s}2"), int(0));
        assert_eq!(scene.ask(1, "SCARD {s}3"), int(3));
        assert_eq!(scene.ask(1, "SMISMEMBER {s}4 {s}3 {s}4 1"), Value::Array(vec![int(1), int(1), int(1)]));
        assert_eq!(scene.ask(1, "SMEMBERS {s}d"), array(&["1", "2", "3"]));
        assert_eq!(scene.ask(1, "OBJECT ENCODING {s}d"), bulk("intset"));
        assert_eq!(scene.ask(1, "SCARD {s}9"), int(4));
    });
}

/// Lists that are pushed to and popped from before, during and after a move.
#[test]
fn lists_move_while_they_change() {
    for_every_protocol(|mut scene| {
        for key in keys("{l}", 6) {
            assert_eq!(scene.ask(0, &format!("RPUSH {key} 1 2 3")), int(3));
        }
        let id = scene.start_and_hold(EVERYTHING, 1);
        assert_eq!(scene.client("LPUSH {l}0 0"), int(4));
        assert_eq!(scene.client("RPOP {l}0"), bulk("3"));
        assert_eq!(scene.client("LMOVE {l}1 {l}2 LEFT RIGHT"), bulk("1"));
        assert_eq!(scene.client("LTRIM {l}3 5 9"), ok());
        assert_eq!(scene.client("LINDEX {l}4 -1"), bulk("3"));
        scene.finish(id);
        assert_eq!(scene.ask(1, "LRANGE {l}0 0 -1"), array(&["0", "1", "2"]));
        assert_eq!(scene.ask(1, "LRANGE {l}1 0 -1"), array(&["2", "3"]));
        assert_eq!(scene.ask(1, "LRANGE {l}2 0 -1"), array(&["1", "2", "3", "1"]));
        assert_eq!(scene.ask(1, "EXISTS {l}3"), int(0));
        assert_eq!(scene.ask(1, "LLEN {l}5"), int(3));
    });
}

/// Sorted sets that are read and changed before, during and after a move.
#[test]
fn sorted_sets_move_while_they_change() {
    for_every_protocol(|mut scene| {
        for key in keys("{z}", 6) {
            assert_eq!(scene.ask(0, &format!("ZADD {key} 1 a 2 b 3.5 c")), int(3));
        }
        let id = scene.start_and_hold(EVERYTHING, 1);
        assert_eq!(scene.client("ZADD {z}0 9 a 4 d"), int(1));
        assert_eq!(scene.client("ZRANK {z}0 a"), int(3));
        assert_eq!(scene.client("ZREM {z}1 a b c"), int(3));
        assert_eq!(scene.client("ZUNIONSTORE {z}d 2 {z}2 {z}3"), int(3));
        assert_eq!(scene.client("ZREMRANGEBYSCORE {z}4 2 9"), int(2));
        scene.finish(id);
        assert_eq!(scene.ask(1, "ZRANGE {z}0 0 -1"), array(&["b", "c", "d", "a"]));
        assert_eq!(scene.ask(1, "EXISTS {z}1"), int(0));
        assert_eq!(scene.ask(1, "ZSCORE {z}d c"), bulk("7"));
        assert_eq!(scene.ask(1, "ZRANGE {z}4 0 -1"), array(&["a"]));
        assert_eq!(scene.ask(1, "ZCARD {z}5"), int(3));
    });
}
