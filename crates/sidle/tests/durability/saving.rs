//! Flushes that are killed; CONFIG SET appendfsync, WAITAOF and their like.

use super::loading::{KEYS, fill};
use super::support::{Client, Node, NodeOptions};
use super::{durable, info, number};
use sidle_resp::Value;
use std::time::{Duration, Instant};

/// How many flushes are killed.
const ROUNDS: u64 = 6;

pub(crate) fn error(client: &mut Client, words: &[&str]) -> String {
    match client.request(words) {
        Value::Error(error) => error.to_string(),
        other => panic!("{words:?}: {other:?}"),
    }
}

pub(crate) fn ok() -> Value {
    Value::Simple("OK".into())
}

#[test]
fn a_flush_that_is_killed_leaves_all_keys_or_none() {
    let mut node = Node::start(&durable("everysec"));
    let mut client = node.client();
    // Replies before it in a pipeline do not wait for it.
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<String>>();
    assert_eq!(client.pipeline(&[words(&["SET", "a", "1"]), words(&["FLUSHALL"])]), [ok(), ok()]);
    let mut has_keys = false;
    for round in 0..ROUNDS {
        if !has_keys {
            fill(&mut node.client());
        }
        let mut client = node.client();
        client.send(&["FLUSHALL"]);
        std::thread::sleep(Duration::from_millis(10 + 25 * round));
        node.kill();
        let is_acknowledged = client.try_reply() == Some(ok());
        node.restart();
        let left = number(&mut node.client(), &["DBSIZE"]);
        assert!(left == 0 || left == KEYS as i64 && !is_acknowledged, "{left} keys in round {round}");
        has_keys = left > 0;
    }
}

#[test]
fn when_the_log_is_synced_is_set_while_the_node_runs() {
    let node = Node::start(&durable("everysec"));
    let mut client = node.client();
    let shown = |client: &mut Client| match client.request(&["CONFIG", "GET", "appendfsync"]) {
        Value::Array(pair) => super::text(&pair[1]).expect("a text"),
        other => panic!("{other:?}"),
    };
    assert_eq!(shown(&mut client), "everysec");
    assert_eq!(client.request(&["CONFIG", "SET", "appendfsync", "ALWAYS"]), ok());
    assert_eq!(shown(&mut client), "always");
    for key in 0..20 {
        client.request(&["SET", &format!("key {key}"), "value"]);
        let field = |client: &mut Client, name: &str| info(client, name).parse::<u64>().expect("a number");
        let (synced, safe) =
            (field(&mut client, "sidle_log_commits_synced"), field(&mut client, "sidle_log_commits_safe"));
        assert!(synced > 0 && synced + 50 > safe, "{synced} of {safe}");
    }
    assert!(error(&mut client, &["CONFIG", "SET", "appendfsync", "no"]).contains("synced each second"));
    assert!(error(&mut client, &["CONFIG", "SET", "appendfsync", "x"]).contains("must be one of"));
    assert_eq!(client.request(&["CONFIG", "SET", "appendfsync", "everysec"]), ok());
    assert_eq!(shown(&mut client), "everysec");
}

#[test]
fn waitaof_waits_for_syncs_and_saves_are_told() {
    let mut node = Node::start(&durable("everysec"));
    let mut client = node.client();
    let pair = |local, replicas| Value::Array(vec![Value::Integer(local), Value::Integer(replicas)]);
    for round in 0..3 {
        client.request(&["SET", "a", &round.to_string()]);
        assert_eq!(client.request(&["WAITAOF", "1", "0", "0"]), pair(1, 0));
        client.request(&["SET", "b", &round.to_string()]);
        assert_eq!(client.request(&["SAVE"]), ok());
    }
    // There are no replicas: it takes its time.
    let began = Instant::now();
    assert_eq!(client.request(&["WAITAOF", "1", "1", "300"]), pair(1, 0));
    assert!(began.elapsed() >= Duration::from_millis(300));
    for (words, why) in [
        (&["WAITAOF", "2", "0", "0"][..], "value is out of range, value must between 0 and 1"),
        (&["WAITAOF", "0", "-1", "0"], "value is out of range, must be positive"),
        (&["WAITAOF", "1", "0", "-1"], "timeout is negative"),
        (&["WAITAOF", "x", "0", "0"], "value is not an integer"),
    ] {
        assert!(error(&mut client, words).contains(why), "{words:?}");
    }
    assert_eq!(client.request(&["BGSAVE"]), Value::Simple("Background saving started".into()));
    assert!(matches!(client.request(&["BGREWRITEAOF"]), Value::Simple(_)));
    let saved = number(&mut client, &["LASTSAVE"]);
    std::thread::sleep(Duration::from_millis(1100));
    client.request(&["BGSAVE"]);
    let deadline = Instant::now() + Duration::from_secs(10);
    while number(&mut client, &["LASTSAVE"]) <= saved {
        assert!(Instant::now() < deadline, "nothing was saved");
        std::thread::sleep(Duration::from_millis(20));
    }
    node.kill();
    node.restart();
    let mut client = node.client();
    assert_eq!(number(&mut client, &["DBSIZE"]), 2);
    client.request(&["MULTI"]);
    client.request(&["WAITAOF", "1", "0", "0"]);
    assert!(matches!(client.request(&["EXEC"]), Value::Array(replies) if replies.len() == 1));

    let other = Node::start(&NodeOptions::default());
    let mut client = other.client();
    assert!(error(&mut client, &["WAITAOF", "1", "0", "0"]).contains("appendonly is disabled"));
    assert_eq!(client.request(&["WAITAOF", "0", "0", "0"]), pair(0, 0));
    assert!(error(&mut client, &["BGREWRITEAOF"]).contains("no durable log"));
    assert_eq!(client.request(&["SAVE"]), ok());
    assert!(number(&mut client, &["LASTSAVE"]) > 1_600_000_000);
}
