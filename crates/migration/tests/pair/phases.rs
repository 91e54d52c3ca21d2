//! Edge cases of phases: the freeze, activation, flush, cancellation, one migration after another, growth and
//! cleaning.

use crate::model::{Answer, Model, Op};
use crate::net::End;
use crate::protocols::{
    by_cuts, copies_ahead, for_every_protocol, for_protocols_that, panics_for_every_protocol,
    serves_while_it_fills,
};
use crate::workers::FrozenRead;
use crate::world::{Node, Outcome, Pair, Role, Setup, WORKERS, key};
use sidle_migration::{ExportPhase, ProtocolChoices, SourceEvent, SourceInput, SourceReads, TargetEvent};
use sidle_types::{HashedKey, PositionRange, Slot};

fn set(n: u64, value: &str) -> Op {
    Op::Set(key(n), value.as_bytes().to_vec(), None)
}

/// The source gives the whole range up at one moment.
fn freezes(protocol: &ProtocolChoices) -> bool {
    !by_cuts(protocol)
}

/// M1, M2, M11: a worker without the new table still serves, and its acknowledged writes move, in the last
/// round if copied before. After the barrier nobody at the source serves.
#[test]
fn writes_that_race_the_freeze_by_clients_with_old_maps() {
    for_protocols_that(freezes, |protocol| {
        for seed in 0..50 {
            let mut pair = Pair::with_records(Setup { seed, ..Setup::of(protocol) }, 200, 50);
            pair.start();
            let mut acknowledged_late = 0;
            for n in 0..2_000 {
                let worker = (n % WORKERS as u64) as usize;
                let was_owner = matches!(pair.source.roles[worker], Role::Owned | Role::Tracked);
                let outcome = pair.at(End::Source, worker, set(n % 200, &format!("late {n}")));
                assert_eq!(outcome == Outcome::Redirected, !was_owner);
                acknowledged_late += usize::from(outcome == Outcome::Answered(Answer::Ok));
                let phase = pair.export.as_ref().unwrap().phase();
                assert!(phase < ExportPhase::Frozen || !was_owner, "M2: frozen while a worker still serves");
                pair.step();
            }
            assert!(acknowledged_late > 0);
            pair.ends_well();
        }
    });
}

/// M3: clients with the new map are parked at the target until `Activate`, then answered; never refused.
#[test]
fn reads_and_writes_that_race_the_freeze_by_clients_with_new_maps() {
    for_protocols_that(freezes, |protocol| {
        let mut parked_in_all = 0;
        for seed in 0..50 {
            let mut pair = Pair::with_records(Setup { seed, ..Setup::of(protocol) }, 200, 50);
            pair.start();
            let mut parked = 0;
            while !pair.import.as_ref().unwrap().activated() {
                for op in [set(parked % 200, "early"), Op::Get(key((parked + 1) % 200))] {
                    match pair.at(End::Target, (seed % 2) as usize, op) {
                        Outcome::Redirected => {}
                        Outcome::Parked => parked += 1,
                        other => panic!("M3: {other:?} before activation"),
                    }
                }
                assert!(pair.step());
            }
            parked_in_all += parked;
            pair.ends_well();
            assert!(pair.woken.len() as u64 >= parked);
            pair.check_all_answered();
        }
        assert!(parked_in_all > 50);
    });
}

/// M4: the source answers frozen reads only while it is frozen for this migration.
#[test]
fn frozen_reads_before_during_and_after() {
    for_every_protocol(|protocol| {
        let answers = protocol.source_reads == SourceReads::AnswersFrozen;
        let says = |said: FrozenRead| if answers { said } else { FrozenRead::NotAnswered };
        let mut pair = Pair::with_records(Setup::slow(protocol), 1_000, 10);
        assert_eq!(pair.read_frozen(&key(1)), FrozenRead::Refused(ExportPhase::Pending));
        pair.start();
        let early = pair.export.as_ref().unwrap().phase();
        assert!(early < ExportPhase::Frozen);
        assert_eq!(pair.read_frozen(&key(1)), says(FrozenRead::Refused(early)));
        pair.run_until("frozen", |pair| pair.export.as_ref().unwrap().phase() == ExportPhase::Frozen);
        assert_eq!(pair.read_frozen(&key(1)), says(FrozenRead::Value(Some(b"         1".to_vec()))));
        assert_eq!(pair.read_frozen(b"no such key"), says(FrozenRead::Value(None)));
        pair.run_until("done", |pair| pair.export.as_ref().unwrap().phase() == ExportPhase::Done);
        // M8: from here on never "absent", though the records are being released.
        while pair.step() {
            assert_eq!(pair.read_frozen(&key(1)), says(FrozenRead::Refused(ExportPhase::Done)));
        }
        pair.check_end();
    });
}

/// M8: all of the source's records are there until `Done` is committed, however long that takes.
#[test]
fn the_source_keeps_everything_until_done_is_committed() {
    for_every_protocol(|protocol| {
        let mut pair = Pair::with_records(Setup::of(protocol), 1_000, 10);
        pair.commits_done = false;
        pair.start();
        pair.run_until("finished", |pair| pair.target_events.contains(&TargetEvent::Finished));
        pair.run_us(60_000_000);
        assert_eq!(pair.source.store.len(), 1_000);
        assert_eq!(pair.export.as_ref().unwrap().phase(), ExportPhase::Frozen);
        pair.commit_done();
        pair.ends_well();
    });
}

/// M8: a worker unaware of the end may be answering a frozen read: until it knows, nothing is released.
#[test]
fn release_waits_for_every_worker() {
    for_every_protocol(|protocol| {
        for seed in 0..20 {
            let mut pair = Pair::with_records(Setup { seed, ..Setup::of(protocol) }, 1_000, 10);
            pair.start();
            let is_done =
                |pair: &Pair| pair.export.as_ref().is_some_and(|view| view.phase() == ExportPhase::Done);
            pair.run_until("done", |pair| is_done(pair));
            while pair.source.roles.contains(&Role::Exporting) {
                assert_eq!(pair.source.store.len(), 1_000);
                pair.step();
            }
            pair.ends_well();
        }
    });
}

/// M8: the barrier of the freeze does not suffice for the release.
#[test]
fn an_older_barrier_does_not_release() {
    panics_for_every_protocol("M8: this barrier passed before", |protocol| {
        let mut pair = Pair::with_records(Setup::of(protocol), 100, 10);
        pair.commits_done = false;
        pair.start();
        pair.run_until("finished", |pair| pair.target_events.contains(&TargetEvent::Finished));
        let older = sidle_migration::RangeBarrier::new(0).publish().passed().unwrap();
        let (now, machine) = (pair.now, pair.source_machine.as_mut().unwrap());
        machine.handle(now, &pair.source.store, SourceInput::DoneCommitted);
        machine.handle(now, &pair.source.store, SourceInput::Over(older));
    });
}

/// M2: if the source changes after the freeze, the machine notices before it releases.
#[test]
fn a_write_to_the_frozen_source_is_noticed() {
    panics_for_every_protocol("M2: a record changed", |protocol| {
        let mut pair = Pair::with_records(Setup::of(protocol), 100, 10);
        pair.start_and_freeze();
        let changed = key(1);
        let hashed = HashedKey::new(&changed);
        let slot = pair.source.store.lock_slot(hashed.slot());
        for _ in 0..100 {
            slot.put(&mut pair.source.head, hashed, &[b"changed"], None).unwrap();
        }
        drop(slot);
        pair.run_to_end();
    });
}

/// Keys that have not arrived at a flush are absent for good.
#[test]
fn flush_in_the_middle() {
    for_every_protocol(|protocol| {
        for steps in [0, 1, 5, 20, 60] {
            let mut pair = Pair::in_the_middle(Setup::slow(protocol), 3_000, 100);
            (0..steps).for_each(|_| {
                pair.step();
            });
            pair.client(Op::Get(key(2_999)));
            pair.client(Op::Flush);
            if serves_while_it_fills(&protocol) {
                assert_eq!(pair.parked(), 0, "the flush and what waited for a pull are answered");
            }
            pair.run_until("the flush is answered", |pair| pair.parked() == 0);
            pair.client(set(5, "after the flush"));
            pair.client(Op::Get(key(6)));
            pair.ends_well();
            pair.check_all_answered();
            assert_eq!(pair.target.store.len(), 1);
        }
    });
}

/// A batch that has arrived but is not replayed when the flush comes is dropped.
#[test]
fn flush_between_arrival_and_replay() {
    for_every_protocol(|protocol| {
        let mut pair = Pair::in_the_middle(Setup::of(protocol), 3_000, 100);
        pair.before_replay = vec![Op::Flush];
        pair.ends_well();
        assert_eq!(pair.target.store.len(), 0);
    });
}

/// M3: a flush that arrives before activation waits for it, like everything, and commands after it find
/// nothing.
#[test]
fn flush_before_activation() {
    for_every_protocol(|protocol| {
        let mut pair = Pair::with_records(Setup::of(protocol), 500, 100);
        pair.start();
        pair.run_until("the target knows", |pair| pair.target.roles == [Role::Importing; WORKERS]);
        if !pair.import.as_ref().unwrap().activated() || by_cuts(&protocol) {
            for op in [Op::Get(key(1)), Op::Flush, Op::SetNx(key(2), b"after".to_vec()), Op::Get(key(3))] {
                assert_eq!(pair.at(End::Target, 0, op), Outcome::Parked);
            }
        }
        pair.ends_well();
        pair.check_all_answered();
        assert_eq!(pair.target.store.len(), 1);
    });
}

/// Before the commit a cancelled migration has changed nothing, at any stage of its preparation.
#[test]
fn cancel_before_the_commit_leaves_no_trace() {
    for_every_protocol(|protocol| {
        for prepares_us in [0, 1_000, 10_000, 1_000_000] {
            let mut pair = Pair::with_records(Setup::of(protocol), 500, 100);
            pair.prepare();
            pair.run_us(prepares_us);
            let has_copied = copies_ahead(&protocol) && prepares_us > 0;
            assert_eq!(!pair.target.store.is_empty(), has_copied, "after {prepares_us} us");
            pair.cancel();
            pair.run_us(1_000_000);
            assert_eq!(pair.target.store.len(), 0);
            for n in 0..500 {
                pair.expect_ok(set(n, "still here"));
            }
            assert_eq!(pair.source.store.len(), 500);
        }
    });
}

/// The connections are made before the commit; the source learns of the migration only then.
#[test]
fn the_target_greets_again_until_the_source_has_heard_of_the_migration() {
    let hears_at_the_commit = |protocol: &ProtocolChoices| !protocol.copies_in_preparation();
    for_protocols_that(hears_at_the_commit, |protocol| {
        let mut pair = Pair::with_records(Setup::of(protocol), 500, 100);
        pair.prepare();
        pair.run_us(3_000_000);
        assert!(!pair.target_machine.as_ref().unwrap().is_connected());
        pair.commit();
        pair.ends_well();
        let reconnects = pair.target_events.iter().filter(|event| matches!(event, TargetEvent::Connect(_)));
        assert_eq!(reconnects.count(), 2, "over the connections that it had");
    });
}

fn overwrite_some(pair: &mut Pair) {
    for n in 0..1_000 {
        let op = match n % 3 {
            0 => set(n, &format!("round {}", pair.spec.id)),
            1 => Op::Del(key(n)),
            _ => Op::Append(key(n), b"+".to_vec()),
        };
        pair.client(op);
        pair.step();
    }
}

/// A to B to A: nothing left of the first migration (versions, tombstones, released records) hinders the
/// second.
#[test]
fn a_to_b_to_a() {
    for_every_protocol(|protocol| {
        let mut pair = Pair::with_records(Setup::slow(protocol), 1_000, 50);
        for id in 2..6 {
            pair.begin_to_the_middle();
            overwrite_some(&mut pair);
            pair.ends_well();
            let Pair { source, target, model, .. } = pair;
            pair = Pair::of_nodes(Setup::slow(protocol), target, source, model, id);
        }
    });
}

/// A to B, then B to C.
#[test]
fn a_to_b_then_b_to_c() {
    for_every_protocol(|protocol| {
        let mut pair = Pair::with_records(Setup::slow(protocol), 1_000, 50);
        for id in 2..4 {
            pair.begin_to_the_middle();
            overwrite_some(&mut pair);
            pair.ends_well();
            let Pair { target, model, .. } = pair;
            pair = Pair::of_nodes(
                Setup::slow(protocol),
                target,
                Node::new(16 << 20, Role::Elsewhere),
                model,
                id,
            );
        }
    });
}

/// Two ranges of one store move one after the other, to the same target.
#[test]
fn one_half_then_the_other() {
    for_every_protocol(|protocol| {
        let slots = |first, last| {
            PositionRange::of_slots(Slot::new(first).unwrap(), Slot::new(last).unwrap()).unwrap()
        };
        let setup = |range| Setup { range, ..Setup::of(protocol) };
        let mut pair = Pair::with_records(setup(slots(0, 8191)), 2_000, 50);
        pair.begin();
        pair.ends_well();
        let Pair { mut source, mut target, model, .. } = pair;
        source.roles = [Role::Owned; WORKERS];
        target.roles = [Role::Elsewhere; WORKERS];
        let of_second = |key: &Vec<u8>| slots(8192, 16383).contains(HashedKey::new(key).position());
        let values = model.values.into_iter().filter(|(key, _)| of_second(key)).collect();
        let mut pair = Pair::of_nodes(
            setup(slots(8192, 16383)),
            source,
            target,
            Model { values, ..Model::default() },
            2,
        );
        pair.begin();
        pair.ends_well();
        assert_eq!(pair.target.store.len(), 2_000);
    });
}

/// The cursor is a position: tables grow and logs are cleaned at both ends while it moves.
#[test]
fn index_growth_and_log_cleaning_at_both_ends() {
    for_every_protocol(|protocol| {
        let slot = Slot::of_key(b"{tag}");
        let range = PositionRange::of_slots(slot, slot).unwrap();
        let setup = Setup { range, source_bytes: 8 << 20, target_bytes: 8 << 20, ..Setup::slow(protocol) };
        let mut pair = Pair::new(setup);
        let tagged = |n: u64| format!("{{tag}}{n}").into_bytes();
        for n in 0..3_000 {
            pair.expect_ok(Op::Set(tagged(n), vec![b'v'; 100], None));
        }
        pair.begin_to_the_middle();
        // The source's other slots are overwritten until its log has been cleaned several times over; the
        // table of the moving slot grows by new keys, and its log is filled with overwrites.
        for round in 0..60_000u64 {
            let other = Op::Set(key(round % 500), vec![b'o'; 200], None);
            assert!(matches!(pair.ask_at(End::Source, other), Outcome::Answered(_) | Outcome::Redirected));
            let moving = Op::Set(tagged(round % 9_000), vec![b'n'; 100], None);
            assert_ne!(pair.client(moving), Outcome::OutOfMemory);
            if round % 20 == 0 {
                pair.step();
            }
        }
        pair.ends_well();
        pair.check_all_answered();
        assert_eq!(pair.target.store.len_in(range), 9_000);
    });
}

/// Memory is freed in slices: no step of the release takes much at once.
#[test]
fn release_goes_in_small_slices() {
    for_every_protocol(|protocol| {
        let mut pair = Pair::with_records(Setup::of(protocol), 5_000, 100);
        pair.start();
        pair.run_until("done", |pair| {
            pair.export.as_ref().is_some_and(|view| view.phase() == ExportPhase::Done)
        });
        let mut before = pair.source.store.len();
        let mut slices = 0;
        while !pair.source_events.contains(&SourceEvent::Ended) {
            pair.step();
            let after = pair.source.store.len();
            assert!(before - after <= 2 * sidle_migration::tuning::RELEASE_SLICE_RECORDS as u64);
            slices += u32::from(after < before);
            before = after;
        }
        assert!(slices >= 5, "{slices} slices");
    });
}
