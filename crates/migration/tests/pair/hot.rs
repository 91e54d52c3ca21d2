//! Hot positions that are copied before the freeze, of a range that freezes whole.

use crate::dead_source::{die, read_the_copy};
use crate::hints::positions;
use crate::model::{Answer, Bytes, Op};
use crate::net::{Arrival, End, Faults};
use crate::protocols::for_protocols;
use crate::world::{Outcome, Pair, Role, Setup, WORKERS, key};
use sidle_migration::tuning::HOT_COPIES_US;
use sidle_migration::{ProtocolChoices, protocol};
use sidle_store::Entry;
use sidle_types::{HashedKey, Position, WallMs};
use sidle_wire::{Activate, Frame, FrameReader, Lane, Message};

const RECORDS: u64 = 2_000;
const HOT: u64 = 24;

/// The protocols that freeze first and serve at once.
const HOT_FIRST: [&str; 4] = [
    "fulva,hot-first=on",
    "fulva,hot-first=on,sampling=off",
    "rocksteady,hot-first=on,missing=wait",
    "zephyr,hot-first=on",
];

fn is_here(pair: &Pair, key: &Bytes) -> bool {
    !matches!(pair.target.store.pin().get(HashedKey::new(key)), Entry::Absent)
}

/// Bulk pulls are slow; the first keys are hot.
fn with_hot_keys(protocol: ProtocolChoices) -> Pair {
    with_setup(Setup::slow(protocol))
}

fn with_setup(setup: Setup) -> Pair {
    let mut pair = Pair::with_records(setup, RECORDS, 100);
    pair.hot = positions(&(0..HOT).map(key).collect::<Vec<_>>());
    pair
}

/// What is copied ahead has been copied, and clients of the source go on.
fn copied(mut pair: Pair) -> Pair {
    pair.prepare();
    pair.run_until_it_may_be_committed();
    let here = (0..HOT).filter(|&n| is_here(&pair, &key(n))).count();
    assert_eq!((here, pair.target.store.len()), (HOT as usize, HOT), "what is hot, and nothing else");
    pair
}

fn at_source(pair: &mut Pair, op: Op) {
    let worker = pair.rng.below(WORKERS as u64) as usize;
    let outcome = pair.at(End::Source, worker, op);
    assert!(matches!(outcome, Outcome::Answered(_)), "{outcome:?}");
}

#[test]
fn what_is_hot_and_unchanged_is_served_at_once() {
    for_protocols(&HOT_FIRST, |protocol| {
        let mut pair = copied(with_hot_keys(protocol));
        for n in 0..HOT {
            at_source(&mut pair, Op::Get(key(n)));
        }
        pair.commit();
        pair.run_until_serving();
        for n in 0..HOT {
            let outcome = pair.client(Op::Append(key(n), b"+".to_vec()));
            assert!(matches!(outcome, Outcome::Answered(_)), "{n}: {outcome:?}");
        }
        assert_eq!(pair.client(Op::Get(key(HOT))), Outcome::Parked, "it was not hot");
        let counters = pair.target_machine.as_ref().unwrap().counters();
        assert_eq!((counters.hinted, counters.priority_pulls), (HOT, 1));
        pair.ends_well();
    });
}

#[test]
fn what_has_changed_since_it_was_copied_is_thrown_away() {
    for_protocols(&HOT_FIRST, |protocol| {
        let mut pair = copied(with_hot_keys(protocol));
        let wall = pair.wall;
        for op in [
            Op::Set(key(0), b"newer".to_vec(), None),
            Op::Append(key(1), b"+".to_vec()),
            Op::Del(key(2)),
            Op::Set(key(3), b"for a moment".to_vec(), Some(WallMs(wall.0 + 5))),
        ] {
            at_source(&mut pair, op);
        }
        pair.wall.0 += 10;
        pair.expire(End::Source, &key(3));
        pair.commit();
        pair.run_until_serving();
        let kept: Vec<u64> = (0..HOT).filter(|&n| is_here(&pair, &key(n))).collect();
        assert_eq!(kept, (4..HOT).collect::<Vec<_>>());
        pair.client(Op::SetNx(key(2), b"anew".to_vec()));
        for n in 0..HOT {
            pair.client(Op::Get(key(n)));
        }
        pair.run_until("all are answered", |pair| pair.parked() == 0);
        pair.ends_well();
    });
}

/// What the source had marked is lost with it: all copies go, before the copy of its log is read.
#[test]
fn what_was_copied_of_a_source_that_died_is_thrown_away() {
    for_protocols(&HOT_FIRST, |protocol| {
        let mut pair = copied(with_hot_keys(protocol));
        at_source(&mut pair, Op::Set(key(0), b"newer".to_vec(), None));
        at_source(&mut pair, Op::Del(key(1)));
        pair.commit();
        pair.run_until("frozen", |pair| pair.source.roles == [Role::Exporting; WORKERS]);
        assert!(!pair.import.as_ref().unwrap().source_is_frozen(), "the target does not know yet");
        assert!(die(&mut pair));
        assert!(pair.target.store.is_empty(), "M35: a copy is left");
        read_the_copy(&mut pair);
        for n in 0..HOT {
            pair.client(Op::Get(key(n)));
        }
        pair.ends_well();
    });
}

#[test]
fn what_has_changed_is_pulled_before_its_turn() {
    for_protocols(&HOT_FIRST, |protocol| {
        let mut pair = copied(with_hot_keys(protocol));
        for n in 0..HOT {
            at_source(&mut pair, Op::Append(key(n), b"+".to_vec()));
        }
        pair.commit();
        pair.run_until_serving();
        assert!(pair.target.store.is_empty());
        pair.run_until("they are here", |pair| (0..HOT).all(|n| is_here(pair, &key(n))));
        assert_eq!(pair.target_machine.as_ref().unwrap().counters().samp_pulls, 2);
        pair.ends_well();
    });
}

#[test]
fn what_is_deleted_stays_deleted() {
    for_protocols(&HOT_FIRST, |protocol| {
        let mut pair = copied(with_hot_keys(protocol));
        (0..HOT / 2).for_each(|n| at_source(&mut pair, Op::Del(key(n))));
        pair.commit();
        pair.run_until_serving();
        (HOT / 2..HOT).for_each(|n| drop(pair.client(Op::Del(key(n)))));
        (0..HOT).for_each(|n| drop(pair.client(Op::Get(key(n)))));
        pair.run_until("all are answered", |pair| pair.parked() == 0);
        let answers = pair.woken.iter().filter_map(|(op, outcome)| match outcome {
            Outcome::Answered(answer) if matches!(op, Op::Get(_)) => Some(answer),
            _ => None,
        });
        assert!(answers.into_iter().all(|answer| *answer == Answer::Value(None)));
        pair.ends_well();
    });
}

#[test]
fn a_flush_of_the_source_leaves_no_copy() {
    for_protocols(&HOT_FIRST, |protocol| {
        let mut pair = copied(with_hot_keys(protocol));
        at_source(&mut pair, Op::Flush);
        at_source(&mut pair, Op::Set(key(HOT), b"later".to_vec(), None));
        pair.commit();
        pair.run_until_serving();
        assert!(pair.target.store.is_empty());
        pair.ends_well();
    });
}

/// M28: the rest of the range costs nothing.
#[test]
fn only_what_is_hot_is_marked() {
    for_protocols(&HOT_FIRST, |protocol| {
        let mut pair = copied(with_hot_keys(protocol));
        for n in 0..RECORDS {
            at_source(&mut pair, Op::Set(key(n), b"newer".to_vec(), None));
        }
        assert_eq!(pair.export.as_ref().unwrap().marked(), HOT);
        pair.commit();
        pair.ends_well();
    });
}

/// Nothing depends on what is copied ahead: where it does not come, the range is frozen without it.
#[test]
fn the_freeze_does_not_wait_for_long() {
    for_protocols(&HOT_FIRST, |protocol| {
        let mut pair = with_hot_keys(protocol);
        pair.prepare_with_given_partitions();
        pair.spec.partitions = pair.source.store.partition(pair.spec.range, protocol.partitions);
        pair.hold_up_the_source(10 * HOT_COPIES_US);
        let began = pair.now.0;
        pair.run_until("caught up", |pair| pair.is_caught_up());
        assert!((HOT_COPIES_US..2 * HOT_COPIES_US).contains(&(pair.now.0 - began)));
        assert!(pair.target.store.is_empty());
    });
}

#[test]
fn links_that_are_cut_and_lose_what_was_named_cost_nothing_but_time() {
    for_protocols(&HOT_FIRST, |protocol| {
        for seed in 0..20 {
            let mut pair = with_setup(Setup { seed, faults: Faults::EVERYTHING, ..Setup::slow(protocol) });
            pair.prepare();
            for n in 0..60 {
                pair.run_us(500);
                at_source(&mut pair, Op::Append(key(n % (2 * HOT)), b"+".to_vec()));
                if n % 10 == 3 {
                    pair.net.cut(pair.now.0, Lane::Priority, &mut pair.rng);
                }
            }
            pair.run_until_it_may_be_committed();
            pair.commit();
            pair.ends_well();
        }
    });
}

fn is_sampled_reply(bytes: &[u8]) -> bool {
    let mut reader = FrameReader::new();
    reader.push(bytes);
    let message = reader.next_frame().unwrap().map(Frame::message).unwrap().unwrap();
    matches!(message, Message::SampPullReply(_))
}

/// M30: what was packed before the freeze comes late, and again.
#[test]
fn a_copy_from_before_the_freeze_does_not_enter_behind_it() {
    for_protocols(&HOT_FIRST, |protocol| {
        let mut pair = with_hot_keys(protocol);
        pair.net.record = Some(Vec::new());
        let mut pair = copied(pair);
        let frames = pair.net.record.take().unwrap();
        let copies: Vec<_> = frames.into_iter().map(|(.., bytes)| bytes).collect();
        let copies: Vec<_> = copies.into_iter().filter(|bytes| is_sampled_reply(bytes)).collect();
        assert!(!copies.is_empty());
        (0..HOT).for_each(|n| at_source(&mut pair, Op::Set(key(n), b"newer".to_vec(), None)));
        pair.commit();
        pair.run_until_serving();
        for bytes in copies {
            pair.arrive(Arrival::Message(Lane::Priority, End::Target.side(), bytes));
        }
        (0..HOT).for_each(|n| drop(pair.client(Op::Get(key(n)))));
        pair.run_until("all are answered", |pair| pair.parked() == 0);
        pair.ends_well();
    });
}

/// An activation that says nothing of copies keeps none.
#[test]
fn an_activation_names_what_holds() {
    for_protocols(&HOT_FIRST, |protocol| {
        let mut pair = copied(with_hot_keys(protocol));
        let highest = pair.source.store.highest_version(pair.spec.range);
        for (unchanged, kept) in [(vec![pair.hot[5], Position(9)], 1), (pair.hot.clone(), 1)] {
            let mut out = Vec::new();
            Activate::write(pair.spec.scope(), highest, RECORDS, &unchanged, &[], &mut out).unwrap();
            pair.arrive(Arrival::Message(Lane::Priority, End::Target.side(), out));
            assert_eq!(pair.target.store.len(), kept, "the first one counts");
        }
    });
}

#[test]
fn what_is_hot_and_large_comes_in_its_turn() {
    for_protocols(&HOT_FIRST, |protocol| {
        let mut setup = Setup::slow(protocol);
        setup.tuning.piece_bytes = 2_000;
        let mut pair = with_setup(setup);
        pair.expect_ok(Op::Set(key(0), vec![b'x'; 3_000], None));
        pair.prepare();
        pair.run_until_it_may_be_committed();
        assert!(!is_here(&pair, &key(0)) && (1..HOT).all(|n| is_here(&pair, &key(n))));
        pair.commit();
        pair.ends_well();
    });
}

/// A full reply leaves positions out; they come by the next one.
#[test]
fn more_than_a_reply_is_copied_ahead() {
    for_protocols(&HOT_FIRST, |protocol| {
        let mut pair = with_hot_keys(protocol);
        (0..HOT).for_each(|n| drop(pair.expect_ok(Op::Set(key(n), vec![b'x'; 10_000], None))));
        let mut pair = copied(pair);
        pair.commit();
        pair.ends_well();
    });
}

/// M28: what a worker writes that does not mark yet precedes the copy.
#[test]
fn nothing_is_copied_before_every_worker_marks() {
    for_protocols(&HOT_FIRST, |protocol| {
        let mut pair = with_hot_keys(protocol);
        pair.prepare();
        pair.run_until("a step", |pair| pair.awaits_step());
        pair.hold_up_the_source(50_000);
        pair.run_us(40_000);
        assert!(pair.target.store.is_empty());
        (0..HOT).for_each(|n| at_source(&mut pair, Op::Set(key(n), b"newer".to_vec(), None)));
        assert_eq!(pair.export.as_ref().unwrap().marked(), 0);
        pair.run_until_it_may_be_committed();
        pair.commit();
        pair.run_until_serving();
        assert_eq!(pair.target.store.len(), HOT);
        pair.ends_well();
    });
}

/// For the stories of named faults.
pub(crate) fn write_behind_the_copy() {
    let mut pair = with_hot_keys(protocol("fulva,hot-first=on").unwrap());
    pair.prepare();
    pair.run_until_it_may_be_committed();
    (0..HOT).for_each(|n| at_source(&mut pair, Op::Set(key(n), b"newer".to_vec(), None)));
    pair.commit();
    pair.ends_well();
}
