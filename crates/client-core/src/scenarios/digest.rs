//! Pushes of what a target was given: they send operations to the owner at once, and no nonsense harms.

use super::*;
use sidle_resp::{ReplyWriter, RespVersion};
use sidle_types::{PositionFilter, write_cursors};

/// Everything moves from node 1 to node 2 bit by bit.
fn giving() -> TabletMap {
    let mut migration = running(1, range(0, u64::MAX), 1, 2, 2);
    (migration.kept_by_source, migration.frozen_reads) = (true, false);
    map(2, 2, &[(0, 2, 2)], vec![migration])
}

fn push(migration: i64, cursors: &[u8], filter: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = ReplyWriter::new(&mut bytes, RespVersion::Resp3);
    writer.push(5);
    writer.bulk(b"sidle-given");
    writer.integer(migration);
    writer.integer(7);
    writer.bulk(cursors);
    writer.bulk(filter);
    bytes
}

fn cursors(next: &[Option<Position>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_cursors(next.iter().copied(), &mut bytes);
    bytes
}

fn filter(keys: &[String]) -> Vec<u8> {
    let positions: Vec<Position> = keys.iter().map(|key| Position::of_key(key.as_bytes())).collect();
    let mut bytes = Vec::new();
    PositionFilter::write(&positions, 0, &mut bytes);
    bytes
}

fn keys(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{prefix}{n}")).collect()
}

/// The node that a read of this key goes to.
fn asked_node(script: &mut Script, token: Token, key: &str) -> u8 {
    script.get(token, key);
    let node = if script.asked(1).is_empty() { 2 } else { 1 };
    script.answer(node, &bulk("v"));
    node
}

#[test]
fn what_a_push_names_is_asked_of_the_target_at_once() {
    for given in [3, 200] {
        let mut script = Script::new(giving());
        let (given, kept) = (keys("given", given), keys("kept", 100));
        assert_eq!(asked_node(&mut script, 0, "given0"), 1, "nothing is known");
        script.push_bytes(2, &push(1, &[], &filter(&given)));
        for (token, key) in (1..).zip(&given) {
            assert_eq!(asked_node(&mut script, token, key), 2, "{key}");
        }
        let errors = kept.iter().filter(|key| asked_node(&mut script, 1000, key) == 2).count();
        assert!(errors <= 3, "{errors}");
        let counters = script.core.counters();
        assert_eq!((counters.given_pushes, counters.given_learnt as usize), (1, given.len()));
        // What it knows already is nothing new.
        script.push_bytes(2, &push(1, &[], &filter(&given)));
        assert_eq!(script.core.counters().given_learnt as usize, given.len());
        assert_eq!(script.core.counters().given, 0);
    }
}

#[test]
fn cursors_of_a_push_count_as_progress() {
    let mut script = Script::new(giving());
    let half = Position(1 << 63);
    script.push_bytes(2, &push(1, &cursors(&[Some(half)]), &[]));
    for (token, key) in (1..).zip(keys("key", 20)) {
        let is_given = Position::of_key(key.as_bytes()) < half;
        assert_eq!(asked_node(&mut script, token, &key) == 2, is_given, "{key}");
    }
    script.push_bytes(2, &push(1, &cursors(&[None]), &[]));
    assert!(keys("key", 20).iter().all(|key| asked_node(&mut script, 99, key) == 2));
}

#[test]
fn pushes_that_make_no_sense_are_ignored() {
    let mut script = Script::new(giving());
    let all = cursors(&[None]);
    let named = filter(&keys("key", 30));
    let mut pushes: Vec<Vec<u8>> = vec![
        push(9, &all, &named),
        push(-1, &all, &named),
        push(1, &all[..15], &named),
        push(1, &all[..8], &named),
        push(1, &cursors(&[None, None]), &[]),
        push(1, &vec![0xff; 8 * 70], &[]),
        push(1, &all, &named[..named.len() - 1]),
        push(1, &all, &[1, 255, 255, 255, 255, 0]),
        push(1, &all, &[7]),
        push(1, &all, &[0, 1]),
    ];
    pushes
        .extend([">1\r\n+sidle-given\r\n", ">2\r\n+sidle-given\r\n:1\r\n", ">0\r\n"].map(|text| text.into()));
    pushes.push(b">5\r\n+sidle-given\r\n:1\r\n+x\r\n$0\r\n\r\n$0\r\n\r\n".to_vec());
    pushes.push(b">5\r\n+sidle-given\r\n:1\r\n:1\r\n*1\r\n:1\r\n_\r\n".to_vec());
    for (token, bytes) in (1..).zip(pushes) {
        script.push_bytes(2, &bytes);
        assert_eq!(asked_node(&mut script, token, "key1"), 1, "{}", bytes.escape_ascii());
    }
    assert_eq!(script.core.counters().given_learnt, 0);
}

#[test]
fn pushes_of_a_range_that_is_not_given_bit_by_bit_are_ignored() {
    let mut script = Script::new(moving());
    script.push_bytes(2, &push(1, &cursors(&[None]), &filter(&["k".to_owned()])));
    script.get(1, "k");
    assert_eq!(script.asked(1).len(), 1, "a double read");
    assert_eq!(script.core.counters().given_pushes, 0);
}

#[test]
fn a_wrong_belief_costs_no_answer() {
    let mut script = Script::new(giving());
    script.push_bytes(2, &push(1, &cursors(&[Some(Position(1))]), &filter(&["k".to_owned()])));
    // The target takes what it was not given, and the source names the target for what it has given.
    assert_eq!(asked_node(&mut script, 1, "k"), 2);
    script.get(2, "other");
    script.answer(1, "-SIDLEGIVEN 1 this node has given the key\r\n");
    script.answer(2, &bulk("v"));
    assert_eq!(asked_node(&mut script, 3, "other"), 2, "it remembers");
    assert_eq!(script.core.counters().given, 1);
    assert_eq!(script.ended().len(), 3);
}

#[test]
fn everything_is_forgotten_with_the_migration() {
    let mut script = Script::new(giving());
    script.push_bytes(2, &push(1, &[], &filter(&keys("key", 100))));
    let mut back = running(2, range(0, u64::MAX), 2, 1, 4);
    (back.kept_by_source, back.frozen_reads) = (true, false);
    script.map = map(4, 2, &[(0, 1, 4)], vec![back]);
    script.push(2, ">2\r\n+sidle-map\r\n:4\r\n");
    script.settle();
    assert!(keys("key", 100).iter().all(|key| asked_node(&mut script, 1, key) == 2), "its source keeps them");
}

#[test]
fn one_connection_to_each_node_is_subscribed_and_another_takes_its_place() {
    let mut pool = Script::pool(still(1, 1), 3);
    let subscribed: Vec<usize> =
        pool.to(1).into_iter().filter(|index| pool.subscribed.contains(index)).collect();
    assert_eq!(subscribed.len(), 1);
    pool.cut(subscribed[0]);
    let again: Vec<usize> = pool.to(1).into_iter().filter(|index| pool.subscribed.contains(index)).collect();
    assert_eq!(again.len(), 1, "another one, that was open");
    assert_ne!(again, subscribed);
    pool.to(1).into_iter().for_each(|index| pool.cut(index));
    pool.set(1, "a");
    pool.pass(1_000_000);
    let anew = pool.to(1).into_iter().filter(|index| pool.subscribed.contains(index)).count();
    assert_eq!(anew, 1, "the new one");
    let without = Script::with(giving(), |config| config.digests = false);
    assert!(without.subscribed.is_empty());
}
