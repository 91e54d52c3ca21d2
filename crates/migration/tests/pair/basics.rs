//! A migration from end to end, without faults.

use crate::model::{Answer, Op};
use crate::net::End;
use crate::world::{Outcome, Pair, Setup, key};
use sidle_migration::{SourceEvent, TargetEvent};
use sidle_wire::Lane;

#[test]
fn everything_moves_and_nothing_is_left_behind() {
    let mut pair = Pair::with_records(Setup::default(), 5_000, 100);
    pair.start();
    pair.run_to_end();
    pair.check_end();
    let counters = pair.target_machine.as_ref().unwrap().counters();
    assert_eq!(counters.records_moved, 5_000);
    assert_eq!(counters.records_present, 0);
    assert_eq!(pair.source_machine.as_ref().unwrap().counters().records_sent, 5_000, "each record once");
    assert_eq!(pair.source_events, [SourceEvent::Activated, SourceEvent::ReleaseFinished]);
    let expected = [
        TargetEvent::Connect(Lane::Bulk),
        TargetEvent::Connect(Lane::Priority),
        TargetEvent::Activated,
        TargetEvent::Finished,
        TargetEvent::SweepFinished,
    ];
    assert_eq!(pair.target_events, expected);
}

#[test]
fn an_empty_range_moves() {
    let mut pair = Pair::new(Setup::default());
    pair.start();
    pair.run_to_end();
    pair.check_end();
}

#[test]
fn the_next_pull_leaves_before_the_last_reply_is_replayed() {
    let mut pair = Pair::with_records(Setup::default(), 5_000, 100);
    pair.start();
    pair.run_until_serving();
    // The hook runs between the arrival of a batch and its replay: by then the next pull must be under way.
    let pulls = |pair: &Pair| pair.target_machine.as_ref().unwrap().counters().pulls;
    pair.run_until("all partitions asked", |pair| pulls(pair) == 8);
    pair.before_replay = vec![Op::Get(key(1))];
    let moved = |pair: &Pair| pair.target_machine.as_ref().unwrap().counters().records_moved;
    pair.run_until("a first reply", |pair| moved(pair) > 0);
    assert!(pulls(&pair) > 8);
}

#[test]
fn reads_and_writes_go_on_while_it_moves() {
    let mut pair = Pair::with_records(Setup::default(), 2_000, 100);
    pair.start();
    pair.run_until_serving();
    for n in 0..2_000 {
        match n % 4 {
            0 => assert_eq!(pair.expect_ok(Op::Set(key(n), b"new".to_vec(), None)), Answer::Ok),
            1 => assert!(pair.ask_at(End::Target, Op::Get(key(n))) != Outcome::Redirected),
            2 => assert!(pair.ask_at(End::Target, Op::Del(key(n))) != Outcome::Redirected),
            _ => {}
        }
        if n % 10 == 0 {
            pair.step();
        }
    }
    pair.run_to_end();
    pair.check_end();
}
