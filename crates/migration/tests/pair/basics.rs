//! A migration from end to end, without faults.

use crate::model::Op;
use crate::protocols::{by_cuts, for_every_protocol, serves_in_the_middle};
use crate::world::{Outcome, Pair, Setup, key};
use sidle_migration::{SourceEvent, TargetEvent};
use sidle_wire::Lane;

#[test]
fn everything_moves_and_nothing_is_left_behind() {
    for_every_protocol(|protocol| {
        let mut pair = Pair::with_records(Setup::of(protocol), 5_000, 100);
        pair.begin();
        pair.ends_well();
        let counters = pair.target_machine.as_ref().unwrap().counters();
        assert_eq!(counters.records_moved, 5_000);
        assert_eq!(counters.records_present, 0);
        assert_eq!(pair.source_machine.as_ref().unwrap().counters().records_sent, 5_000, "each record once");
        let activated = (!by_cuts(&protocol)).then_some(SourceEvent::Activated);
        let expected: Vec<SourceEvent> = activated.into_iter().chain([SourceEvent::Ended]).collect();
        assert_eq!(pair.source_events, expected);
        let connects = Lane::ALL.map(TargetEvent::Connect);
        let caught_up = protocol.copies_in_preparation().then_some(TargetEvent::CaughtUp);
        let activated = (!by_cuts(&protocol)).then_some(TargetEvent::Activated);
        let ends = activated.into_iter().chain([TargetEvent::Finished, TargetEvent::Ended]);
        let expected: Vec<TargetEvent> = connects.into_iter().chain(caught_up).chain(ends).collect();
        assert_eq!(pair.target_events, expected);
    });
}

#[test]
fn an_empty_range_moves() {
    for_every_protocol(|protocol| {
        let mut pair = Pair::new(Setup::of(protocol));
        pair.begin();
        pair.ends_well();
    });
}

#[test]
fn the_next_pull_leaves_before_the_last_reply_is_replayed() {
    for_every_protocol(|protocol| {
        let mut pair = Pair::with_records(Setup::of(protocol), 5_000, 100);
        pair.begin();
        pair.run_until("a first reply", |pair| pair.pulls_before_replay.is_some());
        let partitions = pair.spec.partitions.len() as u64;
        assert_eq!(pair.pulls_before_replay, Some(partitions + 1));
    });
}

#[test]
fn reads_and_writes_go_on_while_it_moves() {
    for_every_protocol(|protocol| {
        let mut pair = Pair::in_the_middle(Setup::of(protocol), 2_000, 100);
        for n in 0..2_000 {
            match n % 4 {
                0 => assert_ne!(pair.client(Op::Set(key(n), b"new".to_vec(), None)), Outcome::OutOfMemory),
                1 => assert_ne!(pair.client(Op::Get(key(n))), Outcome::OutOfMemory),
                2 => assert_ne!(pair.client(Op::Del(key(n))), Outcome::OutOfMemory),
                _ => {}
            }
            if n == 0 {
                let runs = serves_in_the_middle(&protocol) && !by_cuts(&protocol);
                assert_eq!(pair.parked() == 0, runs, "a blind write waits");
            }
            if n % 10 == 0 {
                pair.step();
            }
        }
        pair.ends_well();
    });
}
