//! A long sorted set moves between real processes while it is changed: no change is lost, and it travels as
//! one copy and what changed since.
//!
//! With `SIDLE_TEST_MEMBERS` it has so many members.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // tests run processes and read clocks

mod support;

use sidle_resp::Value;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use support::{Client, Node, NodeOptions, StopWhenDropped, TestCluster, bulk};

const KEY: &str = "scores";
const MEMBERS: usize = 100_000;
/// Changes before the move begins, and behind its end.
const AROUND: Duration = Duration::from_millis(300);
/// What a change may cost in patches at most: it writes three chunks of 512 bytes.
const PATCHED_BYTES: u64 = 2 << 10;
/// Between two requests to a target that does not own the key yet.
const BEFORE_IT_ANSWERS: Duration = Duration::from_millis(1);

fn members() -> usize {
    let said = std::env::var("SIDLE_TEST_MEMBERS").ok();
    said.map_or(MEMBERS, |members| members.parse().expect("SIDLE_TEST_MEMBERS is a number"))
}

fn member(number: usize) -> String {
    format!("member:{number:07}")
}

/// Every member has the score 0.
fn fill(cluster: &TestCluster, members: usize) {
    let mut client = cluster.client(0);
    for first in (0..members).step_by(500) {
        let mut add = vec!["ZADD".to_owned(), KEY.to_owned()];
        (first..(first + 500).min(members)).for_each(|n| add.extend(["0".to_owned(), member(n)]));
        client.pipeline(&[add]);
    }
}

/// What a writer did: how often it incremented each member, and how long it waited for a reply at most.
struct Written {
    increments: Vec<u64>,
    longest: Duration,
}

/// Increments members all over the set, one after the other, where the key is.
fn write(nodes: &[Node], members: usize, stop: &AtomicBool) -> Written {
    let mut clients: Vec<(String, Client)> =
        nodes.iter().map(|node| (node.address(), node.client())).collect();
    let (mut at, mut increments, mut longest) = (0, vec![0; members], Duration::ZERO);
    for turn in 0_usize.. {
        if stop.load(Relaxed) {
            break;
        }
        // A step that shares no divisor with the number of members meets all of them.
        let number = turn.wrapping_mul(7_919) % members;
        increments[number] += 1;
        let asked_at = Instant::now();
        loop {
            match clients[at].1.request(&["ZINCRBY", KEY, "1", &member(number)]) {
                Value::Error(text) if text.starts_with("MOVED ") => {
                    let place = clients.iter().position(|(address, _)| text.ends_with(address.as_str()));
                    at = place.unwrap_or_else(|| panic!("{text}"));
                }
                reply => {
                    assert_eq!(reply, bulk(&increments[number].to_string()), "{}", member(number));
                    break;
                }
            }
        }
        longest = longest.max(asked_at.elapsed());
    }
    Written { increments, longest }
}

/// Asks the target alone, from when it answers at all; the longest wait for a score.
fn read_at_target(node: &Node, members: usize, stop: &AtomicBool) -> Duration {
    let (mut client, mut longest) = (node.client(), Duration::ZERO);
    for turn in 0_usize.. {
        if stop.load(Relaxed) {
            break;
        }
        let asked_at = Instant::now();
        match client.request(&["ZSCORE", KEY, &member(turn.wrapping_mul(7_919) % members)]) {
            Value::Error(text) if text.starts_with("MOVED ") => std::thread::sleep(BEFORE_IT_ANSWERS),
            Value::Bulk(_) => longest = longest.max(asked_at.elapsed()),
            other => panic!("a score, not {other:?}"),
        }
    }
    longest
}

fn start(cluster: &TestCluster, protocol: &str) -> u64 {
    let to = cluster.nodes[1].address();
    let line = ["migrate", "--to", &to, "--slots", "0-16383", "--protocol", protocol, "--detach", "--json"];
    let output = cluster.nodes[0].run(&line);
    assert!(output.status.success(), "{output:?}");
    let begun: serde_json::Value = serde_json::from_slice(&output.stdout).expect("--json prints JSON");
    begun["id"].as_u64().expect("the id is a number")
}

fn moves_while_it_is_changed(protocol: &str, counts_ahead: u64) {
    let members = members();
    let cluster = TestCluster::start(2);
    fill(&cluster, members);
    let stop = &AtomicBool::new(false);
    let target = &cluster.nodes[1];
    let (ended, written, longest_read) = std::thread::scope(|scope| {
        let _stop = StopWhenDropped(stop);
        // Others freeze the range whole, and send what a client of the target asks for.
        let asks_target = protocol == "handoff";
        let reader = scope.spawn(move || asks_target.then(|| read_at_target(target, members, stop)));
        let writer = scope.spawn(|| write(&cluster.nodes, members, stop));
        std::thread::sleep(AROUND);
        let id = start(&cluster, protocol);
        let ended = cluster.wait_for_migration(id);
        std::thread::sleep(AROUND);
        stop.store(true, Relaxed);
        let written = writer.join().expect("every increment was answered with the score before, and one");
        (ended, written, reader.join().expect("the target answers with scores"))
    });
    assert_eq!(ended["state"], "done", "{ended}");
    let changes: u64 = written.increments.iter().sum();
    eprintln!(
        "{protocol}: {members} members, {changes} changes, longest wait {:?}, at the target {longest_read:?}, {ended}",
        written.longest
    );
    let collections = &ended["collections"];
    assert_eq!((&collections["arrived"], &collections["ahead"]), (&1.into(), &counts_ahead.into()));
    let patched = collections["patch_bytes"].as_u64();
    assert!(patched.is_some_and(|patched| patched <= changes * PATCHED_BYTES), "{changes} changes: {ended}");

    let mut target = cluster.client(1);
    assert_eq!(target.request(&["ZCARD", KEY]), Value::Integer(members as i64));
    for first in (0..members).step_by(500) {
        let numbers = first..(first + 500).min(members);
        let scores: Vec<_> =
            numbers.clone().map(|n| vec!["ZSCORE".to_owned(), KEY.to_owned(), member(n)]).collect();
        for (number, score) in numbers.zip(target.pipeline(&scores)) {
            assert_eq!(score, bulk(&written.increments[number].to_string()), "{}", member(number));
        }
    }
}

#[test]
fn by_fulva() {
    moves_while_it_is_changed("fulva", 1);
}

#[test]
fn by_handoff() {
    moves_while_it_is_changed("handoff", 0);
}

#[test]
fn by_rocksteady() {
    moves_while_it_is_changed("rocksteady", 1);
}

/// Others on the same worker have their turns between the slices of a RESTORE: one of them sees that it has
/// begun, and that the key is not there yet.
#[test]
fn others_are_served_while_a_sorted_set_is_restored() {
    let cluster = TestCluster::start_with(1, &NodeOptions::default().flag("--workers", "1"));
    fill(&cluster, MEMBERS);
    let (mut restorer, mut other) = (cluster.client(0), cluster.client(0));
    let Value::Bulk(payload) = restorer.request(&["DUMP", KEY]) else { panic!("a payload") };
    let head = format!("*4\r\n$7\r\nRESTORE\r\n$5\r\nother\r\n$1\r\n0\r\n${}\r\n", payload.len());
    let restore = [head.as_bytes(), &payload, b"\r\n"].concat();
    let look = [vec!["CLIENT".to_owned(), "LIST".to_owned()], vec!["EXISTS".to_owned(), "other".to_owned()]];
    let mut seen = 0;
    // On a machine that is full the other one may come too late.
    for _ in 0..20 {
        restorer.send_raw(&restore);
        loop {
            let looked = other.pipeline(&look);
            let [Value::Bulk(clients), Value::Integer(exists)] = &looked[..] else { panic!("{looked:?}") };
            if *exists == 1 {
                break;
            }
            seen += usize::from(clients.windows(11).any(|words| words == b"cmd=restore"));
        }
        assert_eq!(restorer.reply(), Value::Simple("OK".into()));
        assert_eq!(restorer.request(&["DEL", "other"]), Value::Integer(1));
        if seen >= 3 {
            return;
        }
    }
    panic!("it was seen {seen} times");
}
