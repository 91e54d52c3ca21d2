//! Copies made before the freeze: changes during the copy, the rounds that carry them, the freeze after them,
//! and the ends that change nothing.

use crate::model::Op;
use crate::net::End;
use crate::protocols::{copies_ahead, for_protocols_that};
use crate::world::{Outcome, Pair, Role, Setup, WORKERS, key};
use sidle_migration::{Copies, ExportPhase, ImportPhase, ProtocolChoices, Rounds, TargetEvent};
use sidle_types::HashedKey;

fn ahead_with(mut protocol: ProtocolChoices, few: u64, at_most: u32) -> Setup {
    protocol.copies = Copies::BeforeFreeze(Rounds { few, at_most });
    Setup::of(protocol)
}

fn set(n: u64, value: &str) -> Op {
    Op::Set(key(n), value.as_bytes().to_vec(), None)
}

fn phase(pair: &Pair) -> ImportPhase {
    pair.import.as_ref().unwrap().phase()
}

fn ends_well(mut pair: Pair) {
    pair.commit();
    pair.run_to_end();
    pair.check_end();
    pair.check_no_breach();
}

/// The source answers everything while it is copied; no client learns of the target; nothing delays the end.
#[test]
fn the_source_serves_until_the_commit() {
    for_protocols_that(copies_ahead, |protocol| {
        let mut setup = Setup::of(protocol);
        setup.tuning.max_bytes_per_s = Some(3_000_000);
        let mut pair = Pair::with_records(setup, 1_000, 100);
        pair.prepare();
        let mut n = 0;
        while !pair.is_caught_up() {
            n += 1;
            let op = match n % 4 {
                0 => set(n % 1_000, "newer"),
                1 => Op::Del(key(n % 1_000)),
                2 => Op::Append(key(n % 1_000), b"+".to_vec()),
                _ => Op::Get(key(n % 1_000)),
            };
            assert!(matches!(pair.ask(op), Outcome::Answered(_)));
            assert_eq!(
                (phase(&pair), pair.export.as_ref().unwrap().phase() < ExportPhase::Frozen),
                (ImportPhase::Copying, true)
            );
            assert!(pair.step());
        }
        assert!(n > 20, "{n} steps");
        ends_well(pair);
    });
}

/// M11: changes by a worker with an old table are not marked, so nothing is copied before every worker has
/// the new one.
#[test]
fn nothing_is_copied_before_every_worker_marks() {
    for_protocols_that(copies_ahead, |protocol| {
        for seed in 0..50 {
            let mut pair = Pair::with_records(Setup { seed, ..Setup::of(protocol) }, 200, 50);
            pair.prepare();
            for n in 0..2_000 {
                let worker = (n % WORKERS as u64) as usize;
                let marks = pair.source.roles[worker] == Role::Tracked;
                assert!(marks || pair.source_machine.as_ref().unwrap().counters().records_sent == 0, "M11");
                pair.at(End::Source, worker, set(n % 200, &format!("late {n}")));
                pair.step();
            }
            pair.run_until("caught up", |pair| pair.is_caught_up());
            ends_well(pair);
        }
    });
}

/// M3: the target serves nothing before the last round, however long it takes.
#[test]
fn nobody_is_served_before_the_last_round() {
    for_protocols_that(copies_ahead, |protocol| {
        let mut setup = Setup::of(protocol);
        setup.tuning.max_bytes_per_s = Some(3_000_000);
        let mut pair = Pair::with_records(setup, 1_000, 100);
        pair.prepare();
        pair.run_until("caught up", |pair| pair.is_caught_up());
        for n in 0..1_000 {
            pair.ask_at(End::Source, set(n, "changed behind the copy"));
        }
        pair.commit();
        pair.run_until("frozen", |pair| phase(pair) == ImportPhase::Filling);
        for n in 0..100 {
            assert_eq!(pair.at(End::Target, 0, Op::Get(key(n))), Outcome::Parked);
        }
        let since = pair.now.0;
        pair.run_until_serving();
        assert!(pair.now.0 > since, "the last round takes its time");
        assert_eq!(pair.parked(), 0, "who waited is answered");
        pair.run_to_end();
        pair.check_end();
    });
}

/// A range that changes faster than it is copied is frozen when the rounds are used up.
#[test]
fn the_rounds_end_though_changes_do_not() {
    for_protocols_that(copies_ahead, |protocol| {
        let mut pair = Pair::with_records(ahead_with(protocol, 0, 3), 1_000, 1_000);
        pair.prepare();
        let mut n = 0;
        while !pair.is_caught_up() {
            // More than fits into one reply.
            for _ in 0..500 {
                pair.ask_at(End::Source, Op::Set(key(n % 1_000), vec![b'c'; 1_000], None));
                n += 1;
            }
            pair.step();
        }
        assert!(pair.target_machine.as_ref().unwrap().counters().changes_left > 0);
        ends_well(pair);
    });
}

/// The range may be frozen when few changes are left, not before.
#[test]
fn caught_up_means_that_few_changes_are_left() {
    for_protocols_that(copies_ahead, |protocol| {
        let mut pair = Pair::with_records(ahead_with(protocol, 10, 1_000), 1_000, 100);
        pair.prepare();
        pair.run_until("copied", |pair| pair.import.as_ref().unwrap().progress().all(|next| next.is_none()));
        for n in 0..500 {
            pair.ask_at(End::Source, set(n, "changed"));
        }
        pair.run_until("caught up", |pair| pair.is_caught_up());
        let counters = pair.target_machine.as_ref().unwrap().counters();
        assert!(counters.changes >= 490 && counters.changes_left <= 10, "{counters:?}");
        ends_well(pair);
    });
}

/// A flush during the copy: old keys are gone at the target too, and later writes are not.
#[test]
fn flush_while_it_is_copied() {
    for_protocols_that(copies_ahead, |protocol| {
        for steps in [0, 20, 100, 300] {
            let mut setup = Setup::of(protocol);
            setup.tuning.max_bytes_per_s = Some(1_000_000);
            let mut pair = Pair::with_records(setup, 3_000, 100);
            pair.prepare();
            (0..steps).for_each(|_| {
                pair.step();
            });
            pair.ask_at(End::Source, Op::Flush);
            pair.ask_at(End::Source, set(5, "after the flush"));
            pair.run_until("caught up", |pair| pair.is_caught_up());
            pair.commit();
            pair.run_to_end();
            pair.check_end();
            assert_eq!(pair.target.store.len(), 1);
        }
    });
}

/// A range that changed as a whole is cut where a reply is full.
#[test]
fn a_large_range_comes_in_several_replies() {
    for_protocols_that(copies_ahead, |protocol| {
        let mut pair = Pair::with_records(Setup::of(protocol), 3_000, 1_000);
        pair.prepare();
        pair.run_until("caught up", |pair| pair.is_caught_up());
        let pulls = |pair: &Pair| pair.target_machine.as_ref().unwrap().counters().pulls;
        let before = pulls(&pair);
        pair.export.as_ref().unwrap().mark_range(pair.spec.range);
        pair.commit();
        pair.run_until_serving();
        assert!(pulls(&pair) >= before + 20, "3 MB in replies of 128 KB");
        pair.run_to_end();
        pair.check_end();
    });
}

/// The target has no memory for a round: it waits, and asks for it again.
#[test]
fn out_of_memory_in_a_round() {
    for_protocols_that(copies_ahead, |protocol| {
        let mut pair = Pair::with_records(Setup { target_bytes: 2 << 20, ..Setup::of(protocol) }, 500, 100);
        pair.cleans = true;
        pair.prepare();
        pair.run_until("caught up", |pair| pair.is_caught_up());
        let large = |n: u64, bytes: usize| Op::Set(key(n), vec![b'l'; bytes], None);
        for n in 0..500 {
            pair.ask_at(End::Source, large(n, 8_000));
        }
        pair.run_until("stalled", |pair| pair.target_events.contains(&TargetEvent::Stalled));
        for n in 0..500 {
            pair.ask_at(End::Source, large(n, 10));
        }
        pair.run_until("resumed", |pair| pair.target_events.contains(&TargetEvent::Resumed));
        ends_well(pair);
    });
}

/// The target has no memory for the last round, and nobody serves meanwhile. The copy is discarded. The
/// frozen records are pulled again, served as they arrive, and are the source's last.
#[test]
fn out_of_memory_in_the_last_round() {
    for_protocols_that(copies_ahead, |protocol| {
        let mut setup = Setup { target_bytes: 2 << 20, ..Setup::of(protocol) };
        setup.tuning.max_bytes_per_s = Some(20_000_000);
        let mut pair = Pair::with_records(setup, 500, 100);
        pair.prepare();
        pair.run_until("caught up", |pair| pair.is_caught_up());
        for n in 0..500 {
            pair.ask_at(End::Source, Op::Set(key(n), vec![b'l'; 8_000], None));
        }
        pair.commit();
        pair.run_until("stalled", |pair| pair.target_events.contains(&TargetEvent::Stalled));
        assert_eq!(phase(&pair), ImportPhase::Serving, "who would make room need not wait for it");
        for n in 0..500 {
            assert_ne!(pair.client(Op::Set(key(n), b"short".to_vec(), None)), Outcome::Parked);
        }
        pair.run_until("resumed", |pair| pair.target_events.contains(&TargetEvent::Resumed));
        pair.run_to_end();
        pair.check_end();
        pair.check_no_breach();
    });
}

/// Keys of one position change and are deleted together.
#[test]
fn every_key_of_a_slot_changes_and_goes() {
    for_protocols_that(copies_ahead, |protocol| {
        let mut pair = Pair::with_records(Setup::of(protocol), 300, 100);
        pair.prepare();
        pair.run_until("caught up", |pair| pair.is_caught_up());
        for n in 0..300 {
            let op = if HashedKey::new(&key(n)).slot().number() % 2 == 0 {
                Op::Del(key(n))
            } else {
                set(n, "new")
            };
            pair.ask_at(End::Source, op);
            pair.ask_at(End::Source, set(1_000 + n, "never seen by the copy"));
        }
        ends_well(pair);
    });
}
