//! Requests that are to run once, repeated: on one node, and while their keys move.

use crate::common::*;
use sidle_node::testing::{LATENCY_US, SoloNode, TestClient};
use sidle_resp::Value;

const EVERYTHING: &str = "SLOTS 0-16383";
/// The clock of a node on its own.
const NOW_MS: u64 = 1_700_000_000_000;

/// A client's request with this number, and the lowest one that is open.
fn once(number: u64, lowest: u64, command: &str) -> String {
    format!("SIDLE.ONCE {{k}}done:client {number} {lowest} {NOW_MS} {command}")
}

struct Solo {
    node: SoloNode,
    client: TestClient,
}

impl Solo {
    fn new() -> Solo {
        let node = SoloNode::new();
        let client = node.connect();
        Solo { node, client }
    }

    fn ask(&mut self, request: &str) -> Value {
        self.node.ask(&mut self.client, request)
    }
}

/// The error of a reply, if it is one that begins so.
fn refuses(reply: &Value, begin: &str) -> bool {
    matches!(reply, Value::Error(text) if text.starts_with(begin))
}

pub(crate) fn request_that_is_repeated() {
    let mut solo = Solo::new();
    assert_eq!(solo.ask(&once(1, 1, "INCR {k}a")), int(1));
    assert_eq!(solo.ask(&once(1, 1, "INCR {k}a")), int(1), "N1: it ran again");
    assert_eq!(solo.ask(&once(2, 1, "APPEND {k}b x")), int(1));
    assert_eq!(solo.ask(&once(1, 1, "INCR {k}a")), int(1), "its reply is still needed");
    assert_eq!(solo.ask(&once(3, 2, "MSET {k}a 7 {k}c 8")), ok());
    assert_eq!(solo.ask(&once(2, 2, "APPEND {k}b x")), int(1));
    assert_eq!(solo.ask("MGET {k}a {k}b {k}c"), Value::Array(vec![bulk("7"), bulk("x"), bulk("8")]));
}

pub(crate) fn request_that_arrives_behind_its_acknowledgement() {
    let mut solo = Solo::new();
    assert_eq!(solo.ask(&once(1, 1, "INCR {k}a")), int(1));
    assert_eq!(solo.ask(&once(2, 2, "INCR {k}a")), int(2));
    let late = solo.ask(&once(1, 1, "INCR {k}a"));
    assert!(refuses(&late, "SIDLESTALE "), "N2: {late:?}");
    assert_eq!(solo.ask("GET {k}a"), bulk("2"));
}

pub(crate) fn request_that_was_issued_long_ago() {
    let mut solo = Solo::new();
    let (old, ahead) = (NOW_MS - 300_001, NOW_MS + 60_001);
    let late = solo.ask(&format!("SIDLE.ONCE {{k}}done 1 1 {old} INCR {{k}}a"));
    assert!(refuses(&late, "SIDLELATE "), "N3: {late:?}");
    assert!(refuses(&solo.ask(&format!("SIDLE.ONCE {{k}}done 1 1 {ahead} INCR {{k}}a")), "ERR "));
    assert_eq!(solo.ask("EXISTS {k}a {k}done"), int(0));
}

#[test]
fn what_writes_nothing_and_what_fails_keeps_no_reply() {
    let mut solo = Solo::new();
    assert_eq!(solo.ask("SET {k}a text"), ok());
    assert!(refuses(&solo.ask(&once(1, 1, "INCR {k}a")), "ERR value is not an integer"));
    assert_eq!(solo.ask(&once(2, 1, "SET {k}a other NX")), Value::Null);
    assert_eq!(solo.ask("EXISTS {k}done:client"), int(0));
    assert_eq!(solo.ask("SET {k}a 5"), ok());
    assert_eq!(solo.ask(&once(1, 1, "INCR {k}a")), int(6));
}

#[test]
fn completions_are_not_among_the_keys() {
    let mut solo = Solo::new();
    assert_eq!(solo.ask(&once(1, 1, "SET {k}a text")), ok());
    assert_eq!(solo.ask("DBSIZE"), int(1));
    assert_eq!(solo.ask("KEYS *"), Value::Array(vec![bulk("{k}a")]));
    assert_eq!(solo.ask("SCAN 0"), Value::Array(vec![bulk("0"), Value::Array(vec![bulk("{k}a")])]));
    let slot = sidle_types::Slot::of_key(b"{k}");
    assert_eq!(solo.ask(&format!("CLUSTER COUNTKEYSINSLOT {slot}")), int(1));
    assert_eq!(solo.ask(&format!("CLUSTER GETKEYSINSLOT {slot} 10")), Value::Array(vec![bulk("{k}a")]));
    for _ in 0..50 {
        assert_eq!(solo.ask("RANDOMKEY"), bulk("{k}a"));
    }
    let Value::Bulk(info) = solo.ask("INFO keyspace") else { panic!("no text") };
    assert!(String::from_utf8_lossy(&info).contains("db0:keys=1,expires=0"));
    assert_eq!(solo.ask("TYPE {k}done:client"), Value::Simple("completions".into()));
    assert!(refuses(&solo.ask("GET {k}done:client"), "WRONGTYPE "));
    assert!(refuses(&solo.ask("HGET {k}done:client field"), "WRONGTYPE "));
    assert_eq!(solo.ask("DUMP {k}done:client"), Value::Null);
    assert!(matches!(solo.ask("PTTL {k}done:client"), Value::Integer(599_000..=600_000)));
    // Nothing is left but them.
    assert_eq!(solo.ask(&once(2, 2, "DEL {k}a")), int(1));
    assert_eq!(solo.ask("DBSIZE"), int(0));
    assert_eq!(solo.ask("RANDOMKEY"), Value::Null);
}

#[test]
fn what_cannot_run_once_is_refused_with_words() {
    let mut solo = Solo::new();
    assert_eq!(solo.ask("SET {k}string text"), ok());
    for (request, begin) in [
        (once(1, 1, "GET {k}a"), "ERR SIDLE.ONCE takes"),
        (once(1, 1, "BLPOP {k}a 1"), "ERR SIDLE.ONCE takes"),
        (once(1, 1, "FLUSHALL"), "ERR SIDLE.ONCE takes"),
        (once(1, 1, "PING"), "ERR SIDLE.ONCE takes"),
        (once(1, 1, "EXEC"), "ERR SIDLE.ONCE takes"),
        (once(1, 1, &once(1, 1, "INCR {k}a")), "ERR SIDLE.ONCE takes"),
        (once(1, 1, "SORT {k}a BY weight_* STORE {k}b"), "ERR SIDLE.ONCE takes"),
        (once(1, 1, "NONSENSE {k}a"), "ERR unknown command"),
        (once(1, 1, "LMPOP 1 {k}a LEFT COUNT -1"), "ERR count should be greater than 0"),
        (once(1, 1, "LMPOP 0 {k}a LEFT"), "ERR numkeys should be greater than 0"),
        (once(1, 1, "LMPOP -1 {k}a LEFT"), "ERR numkeys should be greater than 0"),
        (once(1, 1, "LMPOP 3 {k}a LEFT"), "ERR syntax error"),
        (once(1, 1, "ZMPOP many {k}a MIN"), "ERR numkeys should be greater than 0"),
        (
            once(1, 1, "ZUNIONSTORE {k}a 0 {k}b"),
            "ERR at least 1 input key is needed for 'zunionstore' command",
        ),
        (once(1, 1, "ZUNIONSTORE {k}a 5 {k}b"), "ERR syntax error"),
        (once(1, 1, "SORT {k}a LIMIT 1 STORE"), "ERR "),
        (once(1, 1, "INCR"), "ERR wrong number of arguments for 'incr' command"),
        (once(1, 1, "INCR elsewhere"), "CROSSSLOT "),
        (once(1, 1, "INCR {k}done:client"), "ERR the completion key"),
        (once(1, 2, "INCR {k}a"), "ERR the lowest open request"),
        ("SIDLE.ONCE {k}done x 1 1 INCR {k}a".to_owned(), "ERR value is not an integer"),
        ("SIDLE.ONCE {k}done -1 1 1 INCR {k}a".to_owned(), "ERR value is not an integer"),
        (format!("SIDLE.ONCE {{k}}string 1 1 {NOW_MS} INCR {{k}}a"), "WRONGTYPE "),
        ("SIDLE.ONCE {k}done 1 1 1".to_owned(), "ERR wrong number of arguments"),
    ] {
        let reply = solo.ask(&request);
        assert!(refuses(&reply, begin), "{request}: {reply:?}");
    }
    assert_eq!(solo.ask("DBSIZE"), int(1));
    assert_eq!(solo.ask("MULTI"), ok());
    assert!(refuses(&solo.ask(&once(1, 1, "INCR {k}a")), "ERR "));
}

/// Its completion needs some memory. That comes from the cleaner's reserve, so that there is an end to it.
#[test]
fn what_frees_memory_runs_once_where_there_is_none() {
    let node = SoloNode::with_memory(32 << 20);
    let client = node.connect();
    let mut solo = Solo { node, client };
    let once = |key: usize, command: &str| format!("SIDLE.ONCE {{k{key}}}done 1 1 {NOW_MS} {command}");
    assert_eq!(solo.ask("RPUSH {l}ist a b"), int(2));
    let mut keys = 0;
    for bytes in [100_000, 1_000, 100, 10, 1] {
        let value = "v".repeat(bytes);
        while solo.ask(&format!("SET {{k{keys}}} {value}")) == ok() {
            keys += 1;
        }
    }
    let mut refused = solo.ask(&once(keys, &format!("SET {{k{keys}}} x")));
    assert!(refuses(&refused, "OOM "), "{refused:?}");
    // The smallest ones first: each frees less than its completion takes.
    for key in (keys - 100..keys).rev() {
        for _ in 0..2 {
            assert_eq!(solo.ask(&once(key, &format!("DEL {{k{key}}}"))), int(1), "{key} of {keys}");
        }
    }
    assert_eq!(solo.ask(&format!("SIDLE.ONCE {{l}}done 1 1 {NOW_MS} LPOP {{l}}ist")), bulk("a"));
    refused = solo.ask(&once(keys, &format!("SET {{k{keys}}} x")));
    assert!(refuses(&refused, "OOM "), "what takes memory does not get any: {refused:?}");
    // Its reply is longer than what it may take.
    let long =
        (0..keys).find(|key| solo.ask(&format!("STRLEN {{k{key}}}")) == int(100_000)).expect("a long one");
    let refused = solo.ask(&once(long, &format!("GETDEL {{k{long}}}")));
    assert!(refuses(&refused, "OOM "), "{refused:?}");
    assert_eq!(solo.ask(&format!("STRLEN {{k{long}}}")), int(100_000), "and has done nothing");
    // All of them can go.
    for key in (0..keys - 100).rev() {
        assert_eq!(solo.ask(&once(key, &format!("DEL {{k{key}}}"))), int(1), "{key} of {keys}");
    }
    assert_eq!(solo.ask(&once(keys, &format!("SET {{k{keys}}} x"))), ok());
}

/// Its reply could not be kept. Without a bound a long one was a value that no record can have.
#[test]
fn what_has_too_long_a_reply_is_refused_and_does_nothing() {
    let mut solo = Solo::new();
    assert_eq!(solo.ask(&format!("SETRANGE {{k}}a {} x", 5 << 20)), int((5 << 20) + 1));
    let before = solo.ask("STRLEN {k}a");
    assert!(refuses(&solo.ask(&once(1, 1, "GETDEL {k}a")), "ERR the replies that this client"));
    assert_eq!(solo.ask("STRLEN {k}a"), before);
    assert_eq!(solo.ask(&once(1, 1, "DEL {k}a")), int(1));
    // Together, until the first is not needed any more.
    for key in ["a", "b"] {
        assert_eq!(solo.ask(&format!("SETRANGE {{k}}{key} {} x", 3 << 20)), int((3 << 20) + 1));
    }
    assert!(matches!(solo.ask(&once(2, 1, "GETDEL {k}a")), Value::Bulk(_)));
    assert!(refuses(&solo.ask(&once(3, 2, "GETDEL {k}b")), "ERR the replies that this client"));
    assert!(matches!(solo.ask(&once(3, 3, "GETDEL {k}b")), Value::Bulk(_)));
}

#[test]
fn too_many_open_requests_of_a_client_are_refused_until_it_reports_some() {
    let mut solo = Solo::new();
    for number in 1..=64 {
        assert_eq!(solo.ask(&once(number, 1, "INCR {k}a")), int(number as i64));
    }
    assert!(refuses(&solo.ask(&once(65, 1, "INCR {k}a")), "ERR 64 requests"));
    assert_eq!(solo.ask(&once(64, 1, "INCR {k}a")), int(64));
    assert_eq!(solo.ask(&once(65, 60, "INCR {k}a")), int(65));
    assert_eq!(solo.ask(&once(60, 60, "INCR {k}a")), int(60));
}

#[test]
fn keys_are_found_where_a_client_asks_for_them() {
    let mut solo = Solo::new();
    let keys = |names: &[&str]| Value::Array(names.iter().map(|name| bulk(name)).collect());
    let getkeys = format!("COMMAND GETKEYS {}", once(1, 1, "MSET {k}a 1 {k}b 2"));
    assert_eq!(solo.ask(&getkeys), keys(&["{k}done:client", "{k}a", "{k}b"]));
    let getkeys = format!("COMMAND GETKEYS {}", once(1, 1, "NONSENSE {k}a"));
    assert_eq!(solo.ask(&getkeys), keys(&["{k}done:client"]));
}

#[test]
fn a_reply_in_another_version_of_resp_is_not_given() {
    let mut solo = Solo::new();
    assert_eq!(solo.ask(&once(1, 1, "INCR {k}a")), int(1));
    solo.ask("HELLO 3");
    assert!(refuses(&solo.ask(&once(1, 1, "INCR {k}a")), "ERR the request has run"));
    assert_eq!(solo.ask("GET {k}a"), bulk("1"));
}

/// At the source, in the middle of the move, and behind it.
#[test]
fn a_request_runs_once_wherever_its_keys_are() {
    for_every_protocol(|mut scene| {
        let request = |number: u64, lowest: u64, command: &str| {
            format!("SIDLE.ONCE {{k}}done {number} {lowest} {} {command}", 1_700_000_000_000_u64)
        };
        assert_eq!(scene.ask(0, &request(1, 1, "INCR {k}a")), int(1));
        assert_eq!(scene.ask(0, &request(2, 1, "RPUSH {k}list x")), int(1));
        let id = scene.start_and_hold(EVERYTHING, 1);
        assert_eq!(scene.client(&request(1, 1, "INCR {k}a")), int(1));
        assert_eq!(scene.client(&request(3, 2, "INCR {k}a")), int(2));
        scene.cluster.run_for(LATENCY_US);
        assert_eq!(scene.client(&request(2, 2, "RPUSH {k}list x")), int(1));
        scene.finish(id);
        assert_eq!(scene.ask(1, &request(3, 2, "INCR {k}a")), int(2));
        let late = scene.ask(1, &request(1, 1, "INCR {k}a"));
        assert!(refuses(&late, "SIDLESTALE "), "{late:?}");
        assert_eq!(scene.ask(1, "GET {k}a"), bulk("2"));
        assert_eq!(scene.ask(1, "LLEN {k}list"), int(1));
        assert_eq!(scene.ask(1, "DBSIZE"), int(2));
    });
}
