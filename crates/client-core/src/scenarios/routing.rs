//! Destinations of operations: the map, redirects, clients that know nothing of migrations.

use super::*;

#[test]
fn a_client_that_follows_migrations_connects_to_nodes_before_it_needs_them() {
    let owned_by_first = || map(1, 2, &[(0, 1, 1)], vec![]);
    let connected = |script: &Script| -> Vec<u8> { script.lines.values().map(|line| line.node).collect() };
    assert_eq!(connected(&Script::new(owned_by_first())), [1, 2]);
    let plain = Script::with(owned_by_first(), |config| config.awareness = Awareness::Plain);
    assert_eq!(connected(&plain), [1]);
}

#[test]
fn owned_keys_go_to_their_owner_alone() {
    let mut script = Script::new(map(1, 2, &[(0, 1, 1), (1 << 63, 2, 1)], vec![]));
    for (token, key) in (0..).zip(["a", "b", "c", "d", "e", "f"]) {
        let owner = if Position::of_key(key.as_bytes()) < Position(1 << 63) { 1 } else { 2 };
        script.get(token, key);
        assert_eq!(script.asked(owner), [format!("GET {key}")]);
        assert!(script.asked(3 - owner).is_empty());
        script.answer(owner, &bulk("v"));
        assert_eq!(script.ended(), ended(token, "v"));
    }
    assert_eq!(script.core.outstanding(), 0);
    assert_eq!(script.core.counters().double_reads, 0);
}

#[test]
fn operations_before_the_first_map_wait_for_it() {
    let mut script = Script::new(still(1, 1));
    let mut early = Core::new(Config::new(vec![address(1)]));
    early.get(script.now, 5, HashedKey::new(b"k")).unwrap();
    script.core = early;
    script.lines.clear();
    script.pass(0);
    assert_eq!(script.asked(1), ["GET k"]);
    script.answer(1, "_\r\n");
    assert_eq!(script.ended(), ended(5, "null"));
}

/// A later version of a node may show more of the cluster than this client knows of.
#[test]
fn what_a_client_does_not_know_of_a_map_is_ignored() {
    let record = running(1, range(0, 9), 1, 2, 3);
    let written = map(3, 2, &[(0, 2, 3), (10, 1, 1)], vec![record]);
    let mut later = serde_json::to_value(&written).expect("plain data");
    later["version"] = 9.into();
    for part in ["nodes", "tablets", "migrations"] {
        later[part][0]["unheard_of"] = serde_json::json!({ "since": "a later version" });
    }
    later["unheard_of"] = 7.into();
    let mut core = Core::new(Config::new(vec![address(1)]));
    let read = serde_json::from_value::<TabletMap>(later).expect("the rest is as it was");
    core.install_map(MonotonicUs(1), read.clone());
    assert_eq!(core.map().map(|map| map.version()), Some(ProtocolVersion(9)));
    assert_eq!(read.in_version(written.version()), written);
}

#[test]
fn moved_is_followed_and_the_map_asked_for() {
    let mut script = Script::new(still(1, 1));
    script.write(1, &["INCR", "k"]);
    script.map = still(2, 2);
    script.answer(1, "-MOVED 1 10.0.0.2:7000\r\n");
    assert_eq!(script.asked(2), ["INCR k"]);
    script.answer(2, ":1\r\n");
    assert_eq!(script.ended(), ended(1, "Integer(1)"));
    script.pass(2_000);
    script.write(2, &["INCR", "k"]);
    assert_eq!(script.asked(2), ["INCR k"], "by the new map");
}

#[test]
fn ask_is_followed_with_asking_for_one_request() {
    let mut script = Script::new(still(1, 1));
    script.write(1, &["INCR", "k"]);
    script.answer(1, "-ASK 1 10.0.0.2:7000\r\n");
    // The script itself answered ASKING.
    assert_eq!(script.asked(2), ["INCR k"]);
    script.answer(2, ":1\r\n");
    assert_eq!(script.ended(), ended(1, "Integer(1)"));
    script.write(2, &["INCR", "k"]);
    assert_eq!(script.asked(1), ["INCR k"]);
}

#[test]
fn redirects_in_a_circle_end() {
    let mut script = Script::new(still(1, 1));
    script.core.config.operation_timeout_us = u64::MAX / 2;
    script.write(1, &["SET", "k", "v"]);
    for _ in 0..500 {
        for (node, other) in [(1, 2), (2, 1)] {
            if !script.asked(node).is_empty() {
                script.answer(node, &format!("-MOVED 1 10.0.0.{other}:7000\r\n"));
            }
        }
        script.pass(60_000);
    }
    assert_eq!(script.ended(), ended(1, "TooManyTries None"));
}

#[test]
fn a_plain_client_follows_redirects_and_never_reads_twice() {
    let mut script = Script::with(moving(), |config| config.awareness = Awareness::Plain);
    assert_eq!(script.asked(1), ["CLUSTER SLOTS"]);
    let id = "0".repeat(39);
    script
        .answer(1, &format!("*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n$8\r\n10.0.0.2\r\n:7000\r\n$40\r\n{id}2\r\n"));
    script.get(1, "k");
    assert_eq!(script.asked(2), ["GET k"]);
    assert!(script.asked(1).is_empty());
    script.answer(2, "-MOVED 1 10.0.0.1:7000\r\n");
    script.answer(1, &bulk("v"));
    assert_eq!(script.ended(), ended(1, "v"));
}
