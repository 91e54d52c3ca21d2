//! Several connections to each node: the choice of one for a request, its losses, and the shared knowledge.

use crate::config::{Config, WRITTEN_TOGETHER};
use crate::script::{Script, moving, still};
use crate::{Awareness, Class, ConnectionId, Destination, Input, Token};
use sidle_cluster::TabletMap;
use sidle_testbed::fixtures::{map, range, running};
use sidle_types::HashedKey;
use std::collections::BTreeMap;

impl Script {
    pub(crate) fn pool(map: TabletMap, connections_per_node: usize) -> Script {
        Script::with(map, |config| config.connections_per_node = connections_per_node)
    }

    pub(crate) fn set(&mut self, token: Token, key: &str) {
        self.write(token, &["SET", key, "v"]);
    }

    fn owed(&self, node: u8) -> Vec<usize> {
        self.asked_by_line(node).iter().map(Vec::len).collect()
    }

    /// The only connection that owes this request's answer.
    fn owing(&self, request: &str) -> usize {
        let mut found = self.lines.iter().filter(|(_, line)| line.asked.iter().any(|asked| asked == request));
        let (&index, _) = found.next().expect("it was asked");
        assert!(found.next().is_none(), "{request} was asked twice");
        index
    }
}

const VALUE: &str = "$1\r\nv\r\n";

#[test]
fn all_connections_are_made_before_they_are_needed() {
    let pool = Script::pool(still(1, 1), 3);
    assert_eq!((pool.to(1).len(), pool.to(2).len()), (3, 3));
    assert_eq!(pool.lines.keys().copied().collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5], "indices are dense");
    assert_eq!(pool.maps_asked_for, 1);
}

#[test]
fn each_operation_takes_the_idle_connection_used_last() {
    let mut pool = Script::pool(still(1, 1), 3);
    for (token, key) in (0..).zip(["a", "b", "c"]) {
        pool.get(token, key);
    }
    assert_eq!(pool.owed(1), [1, 1, 1]);
    let (first, second) = (pool.owing("GET a"), pool.owing("GET b"));
    pool.answer_on(first, 1, VALUE);
    pool.answer_on(second, 1, VALUE);
    for token in 3..6 {
        pool.get(token, "d");
        assert_eq!(pool.owing("GET d"), second);
        pool.answer_on(second, 1, VALUE);
    }
    pool.get(6, "d");
    pool.get(7, "e");
    assert_eq!((pool.owing("GET d"), pool.owing("GET e")), (second, first));
}

#[test]
fn when_all_owe_answers_the_one_that_owes_fewest_is_taken() {
    let mut pool = Script::pool(still(1, 1), 3);
    (0..7).for_each(|token| pool.get(token, "k"));
    let mut owed = pool.owed(1);
    owed.sort_unstable();
    assert_eq!(owed, [2, 2, 3]);
    // One is stuck: it gets no more until the others owe as many.
    let stuck = pool.to(1).into_iter().max_by_key(|index| pool.lines[index].asked.len()).unwrap();
    let others: Vec<usize> = pool.to(1).into_iter().filter(|&index| index != stuck).collect();
    for token in 7..57 {
        let other = others[token as usize % 2];
        pool.answer_on(other, 1, VALUE);
        pool.get(token, "k");
    }
    assert_eq!(pool.lines[&stuck].asked.len(), 3);
    // Requests after many answers of one connection leave on it together.
    pool.answer_on(stuck, 3, VALUE);
    for token in 57..59 {
        pool.core.get(pool.now, token, HashedKey::new(b"n")).unwrap();
    }
    let written = pool.core.poll_transmit();
    assert_eq!(written.map(ConnectionId::index), Some(stuck));
    assert_eq!(pool.core.poll_transmit().map(ConnectionId::index), None);
}

#[test]
fn answers_of_one_connection_come_in_order_whatever_the_others_do() {
    let mut pool = Script::pool(still(1, 1), 2);
    for (token, key) in (0..).zip(["a", "b", "c", "d"]) {
        pool.get(token, key);
    }
    let (one, other) = (pool.owing("GET a"), pool.owing("GET b"));
    let keys: Vec<String> = pool.lines[&other].asked.iter().cloned().collect();
    assert_eq!(keys.len(), 2);
    pool.deliver(other, "$1\r\n1\r\n$1\r\n2\r\n");
    pool.deliver(one, "$1\r\n3\r\n$1\r\n4\r\n");
    let ended: BTreeMap<Token, String> = pool.ended.iter().cloned().collect();
    let answer_of = |request: &str| &ended[&(Token::from(request.as_bytes()[4] - b'a'))];
    assert_eq!((answer_of(&keys[0]), answer_of(&keys[1])), (&"1".to_owned(), &"2".to_owned()));
    assert_eq!(ended[&0], "3");
}

#[test]
fn a_lost_connection_takes_its_own_operations_with_it_and_no_others() {
    let mut pool = Script::pool(still(1, 1), 3);
    pool.set(1, "a");
    pool.set(2, "b");
    pool.get(3, "c");
    let (one, other) = (pool.owing("SET a v"), pool.owing("SET b v"));
    pool.cut(one);
    assert_eq!(pool.ended, [(1, "ConnectionLost Unknown".to_owned())]);
    pool.cut(pool.owing("GET c"));
    pool.pass(1_000);
    // The read is repeated on the rest, and a lost connection is reopened on demand.
    assert_eq!(pool.owing("GET c"), other);
    pool.answer_on(other, 1, "+OK\r\n");
    pool.answer_on(other, 1, VALUE);
    assert_eq!(pool.ended[1..], [(2, "OK".to_owned()), (3, "v".to_owned())]);
    pool.pass(10_000);
    assert_eq!(pool.to(1).len(), 1);
    (4..8).for_each(|token| pool.get(token, "d"));
    let indices: Vec<usize> = pool.lines.keys().copied().collect();
    assert_eq!(indices, [0, 1, 2, 3, 4, 5], "the old indices are reused");
}

#[test]
fn connections_are_made_with_demand_one_at_a_time() {
    let mut pool = Script::with(still(1, 1), |config| {
        config.connections_per_node = 3;
        config.awareness = Awareness::Plain;
    });
    let id = "0".repeat(40);
    pool.answer_on(
        0,
        1,
        &format!("*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n$8\r\n10.0.0.1\r\n:7000\r\n$40\r\n{id}\r\n"),
    );
    assert_eq!(pool.to(1).len(), 1);
    pool.answers_calls = false;
    (0..10).for_each(|token| pool.get(token, "k"));
    assert_eq!((pool.owed(1), pool.dialled.len()), (vec![10], 1));
    pool.answer_call(0);
    pool.settle();
    pool.get(10, "k");
    assert_eq!(
        (pool.owed(1), pool.dialled.len()),
        (vec![10, 1], 0),
        "the second one is idle: no third is needed"
    );
    pool.get(11, "k");
    pool.answer_call(0);
    pool.settle();
    (12..40).for_each(|token| pool.get(token, "k"));
    assert_eq!((pool.to(1).len(), pool.dialled.len()), (3, 0), "never more than configured");
    assert_eq!(pool.owed(1).iter().sum::<usize>(), 40);
}

#[test]
fn parked_requests_leave_on_the_first_connection() {
    let mut pool = Script::pool(still(1, 1), 2);
    pool.answers_calls = false;
    pool.to(1).into_iter().for_each(|index| pool.cut(index));
    pool.set(1, "a");
    pool.set(2, "b");
    pool.pass(2_000);
    assert_eq!(pool.dialled.len(), 1, "a node that was lost is tried once at a time");
    pool.answer_call(0);
    pool.settle();
    assert_eq!(pool.asked_by_line(1), [["SET a v", "SET b v"]]);
}

/// A node that loses all its connections at once has failed once.
#[test]
fn a_node_is_tried_again_soon_however_many_connections_it_had() {
    let mut pool = Script::pool(still(1, 1), 64);
    pool.to(1).into_iter().for_each(|index| pool.cut(index));
    pool.set(1, "a");
    pool.pass(2_000);
    assert_eq!(pool.asked_by_line(1), [["SET a v"]]);
}

#[test]
fn knowledge_from_one_connection_serves_all() {
    let mut pool = Script::pool(moving(), 3);
    pool.get(1, "k");
    pool.get(2, "other");
    let sum = |owed: Vec<usize>| owed.iter().sum::<usize>();
    assert_eq!((sum(pool.owed(1)), sum(pool.owed(2))), (2, 2), "both ask both nodes");
    let known = pool.owing("GET k");
    pool.answer_on(known, 1, VALUE);
    pool.set(3, "busy");
    // The connection of that answer owes another one by now.
    pool.get(4, "k");
    assert_ne!(pool.owing("GET k"), known);
    assert_eq!(sum(pool.owed(1)), 2, "the source was not asked again");
    // Progress on one connection.
    pool.answer_on(known, 1, "|1\r\n+sidle-progress\r\n*2\r\n:1\r\n+done\r\n+OK\r\n");
    pool.get(5, "any");
    assert_eq!(sum(pool.owed(1)), 2);
    let counters = pool.core.counters();
    assert_eq!((counters.double_reads, counters.single_target_reads), (2, 2));
}

#[test]
fn a_map_announced_on_every_connection_is_fetched_once() {
    let mut pool = Script::pool(still(1, 1), 4);
    pool.map = still(2, 2);
    let before = pool.maps_asked_for;
    for index in pool.lines.keys().copied().collect::<Vec<_>>() {
        pool.deliver(index, ">2\r\n+sidle-map\r\n:2\r\n");
    }
    pool.settle();
    pool.pass(10_000);
    assert_eq!(pool.maps_asked_for - before, 1);
    pool.get(1, "k");
    assert_eq!(pool.owed(2).iter().sum::<usize>(), 1);
}

/// M4 across connections: both answers of one attempt count, whichever connections they arrive on.
#[test]
fn both_halves_of_a_double_read_pair_up_across_connections() {
    let mut pool = Script::pool(moving(), 2);
    pool.get(1, "a");
    pool.get(2, "b");
    let (target_a, target_b) = (pool.owing("GET a"), pool.owing("GET b"));
    let (source_a, source_b) = (pool.owing("SIDLE.FROZEN 1 GET a"), pool.owing("SIDLE.FROZEN 1 GET b"));
    pool.answer_on(source_b, 1, "$1\r\nB\r\n");
    pool.answer_on(target_a, 1, "+EMPTY 1\r\n");
    assert!(pool.ended.is_empty(), "neither has both");
    pool.answer_on(target_b, 1, "+EMPTY 1\r\n");
    pool.answer_on(source_a, 1, "$1\r\nA\r\n");
    assert_eq!(pool.ended, [(2, "B".to_owned()), (1, "A".to_owned())]);
}

/// The requests to a node in one round.
fn leaving(pool: &mut Script, node: u8) -> Vec<Vec<String>> {
    let written = std::iter::from_fn(|| pool.transmit());
    let mut written: Vec<_> = written.filter(|(to, _)| *to == node).map(|(_, asked)| asked).collect();
    written.sort();
    written
}

fn read(pool: &mut Script, token: Token, key: &str) {
    pool.core.get(pool.now, token, HashedKey::new(key.as_bytes())).unwrap();
}

/// Node 1 gives the upper half to node 2.
fn half_moving() -> TabletMap {
    let upper = range(1 << 63, u64::MAX);
    map(2, 2, &[(0, 1, 1), (1 << 63, 2, 2)], vec![running(1, upper, 1, 2, 2)])
}

#[test]
fn the_halves_of_double_reads_leave_together() {
    let mut pool = Script::pool(moving(), 3);
    (0..3).for_each(|token| read(&mut pool, token, "k"));
    assert_eq!(leaving(&mut pool, 1), [["SIDLE.FROZEN 1 GET k"; 3]]);
    assert_eq!(pool.owed(2).iter().max(), Some(&3));
}

#[test]
fn the_halves_of_double_reads_leave_with_other_reads() {
    let mut pool = Script::pool(half_moving(), 3);
    let lower = |key: &&str| HashedKey::new(key.as_bytes()).position().0 < 1 << 63;
    let keys = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let (stays, moves): (Vec<&str>, Vec<&str>) = keys.iter().partition(|key| lower(key));
    read(&mut pool, 1, moves[0]);
    read(&mut pool, 2, stays[0]);
    read(&mut pool, 3, moves[1]);
    let half = |key: &str| format!("SIDLE.FROZEN 1 GET {key}");
    let together = [format!("GET {}", stays[0]), half(moves[0]), half(moves[1])];
    assert_eq!(leaving(&mut pool, 1), [together], "also with a later one");
}

#[test]
fn the_halves_of_double_reads_wait_for_no_write_and_for_nothing_written_earlier() {
    let mut pool = Script::pool(moving(), 3);
    let to = Destination::Key(HashedKey::new(b"k"));
    pool.core.submit(pool.now, 1, Class::Write, to, &[b"INCR", b"k"]).unwrap();
    read(&mut pool, 2, "k");
    assert_eq!(leaving(&mut pool, 2), [["GET k"], ["INCR k"]]);
    read(&mut pool, 3, "k");
    let mut owed = |node| {
        leaving(&mut pool, 0);
        let mut owed = pool.owed(node);
        owed.sort_unstable();
        owed
    };
    assert_eq!((owed(2), owed(1)), (vec![1, 1, 1], vec![0, 1, 1]));
}

#[test]
fn where_all_connections_owe_answers_the_halves_of_double_reads_spread() {
    let mut pool = Script::pool(moving(), 2);
    for token in 0..2 {
        read(&mut pool, token, "k");
        leaving(&mut pool, 0);
    }
    assert_eq!((pool.owed(1), pool.owed(2)), (vec![1, 1], vec![1, 1]));
    (2..4).for_each(|token| read(&mut pool, token, "k"));
    leaving(&mut pool, 0);
    assert_eq!((pool.owed(1), pool.owed(2)), (vec![2, 2], vec![2, 2]), "no stuck one draws them all");
}

#[test]
fn the_halves_of_double_reads_do_not_wait_for_a_map() {
    let mut pool = Script::pool(moving(), 3);
    pool.deliver(pool.to(1)[0], ">2\r\n+sidle-map\r\n:3\r\n");
    read(&mut pool, 1, "k");
    let written = [leaving(&mut pool, 1)].concat();
    assert_eq!(written, [["SIDLE.FROZEN 1 GET k"], ["SIDLE.MAP"]]);
}

#[test]
fn not_more_leaves_together_than_a_few() {
    let mut pool = Script::pool(moving(), 2);
    (0..=WRITTEN_TOGETHER as Token).for_each(|token| read(&mut pool, token, "k"));
    let left: Vec<usize> = leaving(&mut pool, 1).iter().map(Vec::len).collect();
    assert_eq!(left.iter().sum::<usize>(), WRITTEN_TOGETHER + 1);
    assert_eq!(left.iter().max(), Some(&WRITTEN_TOGETHER));
}

/// Requests that were given up before they left are not sent.
#[test]
fn the_halves_of_a_double_read_that_is_over_do_not_leave() {
    let mut pool = Script::pool(moving(), 2);
    read(&mut pool, 1, "k");
    pool.now = pool.now.plus_us(Config::OPERATION_TIMEOUT_US);
    pool.handle(Input::Tick);
    assert_eq!(pool.ended.len(), 1);
    assert_eq!(leaving(&mut pool, 1), Vec::<Vec<String>>::new());
}

#[test]
fn moved_is_followed_on_the_other_nodes_connections() {
    let mut pool = Script::pool(still(1, 1), 2);
    pool.set(1, "a");
    pool.set(2, "b");
    pool.map = still(2, 2);
    pool.answer_on(pool.owing("SET a v"), 1, "-MOVED 1 10.0.0.2:7000\r\n");
    pool.pass(2_000);
    pool.set(3, "c");
    assert_eq!(pool.owed(2), [1, 1], "the map that one redirect brought serves all");
    pool.answer_on(pool.owing("SET b v"), 1, "-MOVED 1 10.0.0.2:7000\r\n");
    assert_eq!(pool.owed(2).iter().sum::<usize>(), 3);
}

#[test]
fn asking_stands_directly_before_its_request() {
    let mut pool = Script::pool(still(1, 1), 2);
    pool.set(1, "a");
    pool.set(2, "b");
    let lines = (pool.owing("SET a v"), pool.owing("SET b v"));
    // Both are redirected before anything is written: they go to different connections, each with its own
    // ASKING.
    let ask = "-ASK 1 10.0.0.2:7000\r\n";
    for index in [lines.0, lines.1] {
        pool.lines.get_mut(&index).unwrap().asked.pop_front();
        pool.deliver(index, ask);
    }
    assert_eq!(leaving(&mut pool, 2), [["ASKING", "SET a v"], ["ASKING", "SET b v"]]);
}

#[test]
fn an_operation_that_times_out_on_a_silent_connection_closes_that_one() {
    let mut pool = Script::pool(still(1, 1), 2);
    pool.set(1, "a");
    let silent = pool.owing("SET a v");
    pool.pass(Config::OPERATION_TIMEOUT_US / 2);
    pool.set(2, "b");
    let other = pool.owing("SET b v");
    pool.pass(Config::OPERATION_TIMEOUT_US / 2);
    assert_eq!(pool.ended, [(1, "TimedOut Unknown".to_owned())]);
    assert!(!pool.lines.contains_key(&silent) && pool.lines.contains_key(&other));
}

#[test]
#[should_panic(expected = "1 to 1024 connections")]
fn no_connections_are_refused() {
    Script::pool(still(1, 1), 0);
}

#[test]
#[should_panic(expected = "1 to 1024 connections")]
fn too_many_connections_are_refused() {
    Script::pool(still(1, 1), 1025);
}
