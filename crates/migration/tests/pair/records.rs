//! Edge cases of single records: deletions, versions, deadlines, sizes, positions.

use crate::model::{Answer, Op};
use crate::net::End;
use crate::protocols::{
    by_cuts, copies_ahead, for_every_protocol, for_protocols_that, panics_for_every_protocol,
    pulls_keys_ahead, samples, serves_while_it_fills,
};
use crate::workers::FrozenRead;
use crate::world::{Outcome, Pair, Role, Setup, WORKERS, key};
use sidle_migration::{FULVA, RangeBarrier, SourceReads, TargetInput};
use sidle_store::{Entry, Store};
use sidle_types::{HashedKey, Position, PositionRange, Version, WallMs};

fn version(store: &Store, key: &[u8]) -> Option<Version> {
    match store.pin().get(HashedKey::new(key)) {
        Entry::Absent => None,
        Entry::Tombstone(version) => Some(version),
        Entry::Value(record) => Some(record.version()),
    }
}

fn get(pair: &mut Pair, wanted: &[u8]) -> Outcome {
    pair.client(Op::Get(wanted.to_vec()))
}

fn found(value: &[u8]) -> Outcome {
    Outcome::Answered(Answer::Value(Some(value.to_vec())))
}

const NOT_FOUND: Outcome = Outcome::Answered(Answer::Value(None));

/// M6, M5: the delete leaves a tombstone, and the record that is pulled later does not reappear.
#[test]
fn delete_then_late_replay() {
    for_every_protocol(|protocol| {
        let mut pair = Pair::in_the_middle(Setup::slow(protocol), 1_000, 100);
        for n in 0..1_000 {
            pair.client(Op::Del(key(n)));
        }
        pair.ends_well();
        assert_eq!(pair.target.store.len(), 0);
    });
}

/// M5: a blind write at the target wins over the source's record, which arrives later.
#[test]
fn blind_write_then_late_replay() {
    for_every_protocol(|protocol| {
        let mut pair = Pair::in_the_middle(Setup::slow(protocol), 1_000, 100);
        for n in (0..1_000).step_by(2) {
            pair.client_in_the_middle(Op::Set(key(n), b"newer".to_vec(), None));
        }
        pair.ends_well();
    });
}

#[test]
fn sampled_pull_then_bulk_pull_of_the_same_record() {
    for_protocols_that(samples, |protocol| {
        // Many, so that bulk pulls reach few of the fifty within the interval of sampled pulls.
        let mut pair = Pair::in_the_middle(Setup::slow(protocol), 20_000, 100);
        pair.run_until("the target knows", |pair| pair.target.roles == [Role::Importing; WORKERS]);
        for n in 0..50 {
            assert_eq!(pair.read_at_target(&key(n)), None, "not here yet, and drawn for a sampled pull");
        }
        pair.ends_well();
        let sampled = pair.source_machine.as_ref().unwrap().counters().records_sent_early;
        assert!((30..=50).contains(&sampled), "{sampled} records sent early");
        let counters = pair.target_machine.as_ref().unwrap().counters();
        assert_eq!(
            (counters.records_moved, counters.records_present),
            (20_000, sampled),
            "each inserted once"
        );
        assert!((1..=3).contains(&counters.samp_pulls), "{} pulls for 50 positions", counters.samp_pulls);
    });
}

/// Versions only grow: the target's first write gets a version above anything in the range at the source.
#[test]
fn source_version_higher_than_the_targets() {
    for_every_protocol(|protocol| {
        let mut pair = Pair::with_records(Setup::slow(protocol), 100, 100);
        for n in 0..500 {
            pair.expect_ok(Op::Set(key(7), format!("v{n}").into_bytes(), None));
        }
        let before = version(&pair.source.store, &key(7)).unwrap();
        assert!(version(&pair.target.store, &key(7)).is_none());
        pair.begin_to_the_middle();
        let set = |key: Vec<u8>| Op::Set(key, b"newest".to_vec(), None);
        pair.client_in_the_middle(set(key(7)));
        pair.run_until_serving();
        pair.client(set(b"new".to_vec()));
        pair.run_until("all are answered", |pair| pair.parked() == 0);
        for key in [&key(7)[..], b"new"] {
            let after = version(&pair.target.store, key).unwrap();
            assert!(after > before, "{after:?} at the target, {before:?} at the source");
        }
        pair.ends_well();
        assert_eq!(get(&mut pair, &key(7)), found(b"newest"));
    });
}

/// M5 for any versions: even a lower one at the target is not replaced. It tests the store alone, independent
/// of the protocol.
#[test]
fn replay_of_a_higher_version_does_not_replace() {
    let mut pair = Pair::with_records(Setup::of(FULVA), 100, 100);
    for _ in 0..100 {
        pair.expect_ok(Op::Set(key(7), b"old".to_vec(), None));
    }
    let hashed = HashedKey::new(b"key:7");
    let mut batch = Vec::new();
    assert!(pair.source.store.pack(hashed, &mut batch));
    let slot = pair.target.store.lock_slot(hashed.slot());
    slot.put(&mut pair.target.head, hashed, &[b"lower"], None).unwrap();
    drop(slot);
    let batch = sidle_store::RecordBatch::parse(&batch).unwrap();
    pair.target.store.replay(&mut pair.target.head, &batch, PositionRange::ALL).unwrap();
    assert_eq!(pair.target.store.pin().get(hashed).value().unwrap().value(), b"lower");
}

#[test]
fn commands_that_need_the_old_value_of_a_key_not_here_yet() {
    for_every_protocol(|protocol| {
        let mut pair = Pair::in_the_middle(Setup::slow(protocol), 1_000, 10);
        let outcomes = pair.clients_in_the_middle(&[
            Op::Append(key(1), b"!".to_vec()),
            Op::SetNx(key(2), b"x".to_vec()),
            Op::Del(key(3)),
            Op::Get(key(4)),
        ]);
        let number = |n| Outcome::Answered(Answer::Number(n));
        assert_eq!(outcomes, [number(11), number(0), number(1), found(b"         4")]);
        pair.ends_well();
    });
}

/// If keys are pulled ahead, "absent" is known after one pull: a tombstone records it, and the second command
/// does not wait.
#[test]
fn commands_that_need_the_old_value_of_a_key_that_never_existed() {
    for_every_protocol(|protocol| {
        let mut pair = Pair::in_the_middle(Setup::slow(protocol), 1_000, 100);
        let outcomes = pair.clients_in_the_middle(&[
            Op::Append(b"no:1".to_vec(), b"!".to_vec()),
            Op::SetNx(b"no:2".to_vec(), b"x".to_vec()),
            Op::Del(b"no:3".to_vec()),
            Op::Get(b"no:4".to_vec()),
        ]);
        let number = |n| Outcome::Answered(Answer::Number(n));
        assert_eq!(outcomes, [number(1), number(1), number(0), NOT_FOUND]);
        let is_tombstone =
            |name: &[u8]| matches!(pair.target.store.pin().get(HashedKey::new(name)), Entry::Tombstone(_));
        assert_eq!(is_tombstone(b"no:3"), !copies_ahead(&protocol) && !by_cuts(&protocol), "deleted here");
        assert_eq!(is_tombstone(b"no:4"), pulls_keys_ahead(&protocol), "known to be absent");
        assert_eq!(get(&mut pair, b"no:4"), NOT_FOUND, "without waiting");
        pair.ends_well();
    });
}

#[test]
fn absolute_deadlines_travel() {
    for_every_protocol(|protocol| {
        let mut pair = Pair::with_records(Setup::of(protocol), 500, 100);
        let deadline = WallMs(pair.wall.0 + 60_000);
        pair.expect_ok(Op::Set(b"ttl".to_vec(), b"v".to_vec(), Some(deadline)));
        pair.begin();
        pair.ends_well();
        let expires_at = pair.target.store.pin().get(HashedKey::new(b"ttl")).value().unwrap().expires_at();
        assert_eq!(expires_at, Some(deadline));
        pair.wall = WallMs(deadline.0 + 1);
        assert_eq!(get(&mut pair, b"ttl"), NOT_FOUND);
    });
}

/// M6, M11: an expired key at the target stays a tombstone, so that the frozen source's copy without a
/// deadline stays away. A key that expires at a serving source is gone from the copy.
#[test]
fn expired_in_the_middle_stays_away() {
    for_every_protocol(|protocol| {
        let mut pair = Pair::in_the_middle(Setup::slow(protocol), 500, 100);
        let deadline = WallMs(pair.wall.0 + 10);
        for n in 0..500 {
            pair.client_in_the_middle(Op::Set(key(n), b"short-lived".to_vec(), Some(deadline)));
        }
        pair.wall = WallMs(deadline.0 + 1);
        let expire = |pair: &mut Pair, end| (0..500).for_each(|n| pair.expire(end, &key(n)));
        // The end that owns the range expires them, the other one nothing.
        [End::Source, End::Target].into_iter().for_each(|end| expire(&mut pair, end));
        let tombstones = pair.target.store.tombstones_in(PositionRange::ALL);
        assert_eq!(tombstones > 400, serves_while_it_fills(&protocol), "most had not arrived: {tombstones}");
        pair.ends_well();
        expire(&mut pair, End::Target);
        assert_eq!(pair.target.store.len(), 0);
    });
}

/// M2: the frozen source keeps expired records; it answers them as absent, and the target receives them with
/// their deadlines.
#[test]
fn the_frozen_source_does_not_expire() {
    for_every_protocol(|protocol| {
        let mut pair = Pair::with_records(Setup::of(protocol), 500, 100);
        let deadline = WallMs(pair.wall.0 + 10);
        pair.expect_ok(Op::Set(b"ttl".to_vec(), b"v".to_vec(), Some(deadline)));
        pair.start_and_freeze();
        let before = pair.source.store.len();
        pair.wall = WallMs(deadline.0 + 1);
        pair.expire(End::Source, b"ttl");
        assert_eq!(pair.source.store.len(), before, "M2");
        let answers = protocol.source_reads == SourceReads::AnswersFrozen;
        let absent = if answers { FrozenRead::Value(None) } else { FrozenRead::NotAnswered };
        assert_eq!(pair.read_frozen(b"ttl"), absent);
        pair.ends_well();
    });
}

#[test]
fn values_larger_than_a_pull() {
    for_every_protocol(|protocol| {
        let setup = Setup { source_bytes: 64 << 20, target_bytes: 64 << 20, ..Setup::of(protocol) };
        let mut pair = Pair::with_records(setup, 200, 100);
        for n in 0..6 {
            pair.expect_ok(Op::Set(format!("big:{n}").into_bytes(), vec![n as u8; 3 << 20], None));
        }
        pair.begin_to_the_middle();
        let outcomes = pair.clients_in_the_middle(&[Op::Get(b"big:3".to_vec())]);
        assert_eq!(outcomes, [found(&vec![3; 3 << 20])]);
        pair.ends_well();
    });
}

#[test]
fn empty_partitions() {
    for_every_protocol(|protocol| {
        // All records in one slot of a range of many: most partitions are empty, for any cut.
        let mut pair = Pair::new(Setup::of(protocol));
        for n in 0..300 {
            pair.expect_ok(Op::Set(format!("{{tag}}{n}").into_bytes(), b"v".to_vec(), None));
        }
        let eighth =
            |n: u64| PositionRange::new(Position(n << 61), Position((n << 61) | (u64::MAX >> 3))).unwrap();
        pair.spec.partitions = (0..8).map(eighth).collect();
        pair.prepare_with_given_partitions();
        pair.commit_in_time();
        pair.ends_well();
    });
}

/// Found by search: both have the same slot and the same upper 50 bits of the key hash.
pub(crate) const TWINS: [&[u8]; 2] = [b"{t}2649a1b", b"{t}383230d"];

#[test]
fn two_keys_with_equal_position() {
    for_every_protocol(|protocol| {
        assert_eq!(Position::of_key(TWINS[0]), Position::of_key(TWINS[1]));
        for delete_one in [false, true] {
            let mut pair = Pair::with_records(Setup::slow(protocol), 500, 100);
            for twin in TWINS {
                pair.expect_ok(Op::Set(twin.to_vec(), twin.to_vec(), None));
            }
            pair.begin_to_the_middle();
            if delete_one {
                // A command deletes one of them; the other arrives by a sampled pull of their common
                // position.
                pair.client(Op::Del(TWINS[0].to_vec()));
                pair.read_at_target(TWINS[1]);
            }
            pair.ends_well();
            let first = if delete_one { NOT_FOUND } else { found(TWINS[0]) };
            assert_eq!(get(&mut pair, TWINS[0]), first);
            assert_eq!(get(&mut pair, TWINS[1]), found(TWINS[1]));
        }
    });
}

/// Twins larger than a pull: the pull ends after both, never between them.
#[test]
fn a_pull_never_ends_between_two_keys_of_one_position() {
    for_every_protocol(|protocol| {
        let setup = Setup { source_bytes: 64 << 20, target_bytes: 64 << 20, ..Setup::of(protocol) };
        let mut pair = Pair::with_records(setup, 100, 100);
        for twin in TWINS {
            pair.expect_ok(Op::Set(twin.to_vec(), vec![b'x'; 200 << 10], None));
        }
        pair.begin();
        pair.ends_well();
    });
}

#[test]
fn a_hash_tag_slot_with_very_many_keys() {
    for_every_protocol(|protocol| {
        let setup = Setup { source_bytes: 64 << 20, target_bytes: 64 << 20, ..Setup::of(protocol) };
        let mut pair = Pair::new(setup);
        for n in 0..60_000 {
            pair.expect_ok(Op::Set(format!("{{tag}}{n}").into_bytes(), b"value".to_vec(), None));
        }
        pair.begin();
        assert_eq!(pair.spec.partitions.len(), protocol.partitions, "one slot is cut as finely as any range");
        pair.ends_well();
    });
}

/// A range that starts and ends inside slots moves alone: its neighbours in the same slots stay where they
/// are.
#[test]
fn a_range_inside_slots_moves_without_its_neighbours() {
    for_every_protocol(|protocol| {
        let slot = Position::of_key(b"{tag}").slot();
        let middle = Position(Position::first_of(slot).0 + (1 << 49));
        let range = PositionRange::new(middle, Position::last_of(slot)).unwrap();
        let mut pair = Pair::new(Setup { range, ..Setup::of(protocol) });
        for n in 0..2_000 {
            pair.expect_ok(Op::Set(format!("{{tag}}{n}").into_bytes(), b"v".to_vec(), None));
        }
        pair.begin_to_the_middle();
        for n in 0..2_000 {
            // Writes on both sides of the cut, in one slot, at two nodes.
            pair.ask(Op::Set(format!("{{tag}}{n}").into_bytes(), b"w".to_vec(), None));
        }
        pair.ends_well();
        assert!(pair.source.store.len() > 500 && pair.target.store.len() > 500);
    });
}

/// M6: tombstones go only after the barrier that follows `Done`.
#[test]
fn a_sweep_before_everything_is_here_is_refused() {
    panics_for_every_protocol("M6: done", |protocol| {
        let mut pair = Pair::in_the_middle(Setup::of(protocol), 2_000, 100);
        let barrier = RangeBarrier::new(0);
        let proof = barrier.publish().passed().unwrap();
        pair.target_input(TargetInput::Over(proof));
    });
}
