//! Priority pulls, sampled pulls and pacing: how requests are batched, de-duplicated and ordered.

use crate::model::Op;
use crate::net::{End, Faults};
use crate::world::{Outcome, Pair, Setup, key};
use sidle_migration::tuning::PRIORITY_WAITERS_MAX;
use sidle_migration::{Load, SourceInput, TargetCounters, TargetEvent, TargetInput, Waiter, WaiterRefusal};
use sidle_types::{HashedKey, Position};
use sidle_wire::Lane;

fn counters(pair: &Pair) -> TargetCounters {
    pair.target_machine.as_ref().unwrap().counters()
}

fn serving(setup: Setup, records: u64) -> Pair {
    let mut pair = Pair::with_records(setup, records, 100);
    pair.start();
    pair.run_until_serving();
    pair
}

#[test]
fn many_commands_that_wait_for_one_key_pull_it_once() {
    let mut pair = serving(Setup::slow(), 1_000);
    for _ in 0..50 {
        assert_eq!(pair.ask_at(End::Target, Op::Get(key(500))), Outcome::Parked);
    }
    pair.run_until("all woken", |pair| pair.parked() == 0);
    assert_eq!(counters(&pair).priority_pulls, 1);
    assert_eq!(pair.source_machine.as_ref().unwrap().counters().records_sent_early, 1);
    assert_eq!(pair.woken.len(), 50);
}

/// Whoever waited and left still counts, and while the source does not answer others may come for ever.
#[test]
fn more_commands_than_may_wait_are_refused() {
    let mut pair = serving(Setup::slow(), 1_000);
    let most = PRIORITY_WAITERS_MAX as u64;
    for ticket in 0..most + 2 {
        let key = key(ticket % 1_000);
        pair.target_input(TargetInput::PriorityPull(&key, Waiter { worker: 0, ticket }));
    }
    let machine = pair.target_machine.as_mut().unwrap();
    assert!(
        machine.queues().all(|fill| fill.count <= fill.most),
        "{:?}",
        machine.queues().collect::<Vec<_>>()
    );
    let events: Vec<TargetEvent> = std::iter::from_fn(|| machine.poll_event()).collect();
    let refused = |ticket| TargetEvent::Refuse(Waiter { worker: 0, ticket }, WaiterRefusal::TooManyWait);
    assert_eq!(events, [refused(most), refused(most + 1)]);
}

#[test]
fn priority_pulls_go_in_batches_of_sixteen_one_in_flight() {
    let mut pair = serving(Setup::slow(), 1_000);
    for n in 0..40 {
        assert_eq!(pair.ask_at(End::Target, Op::Get(key(n))), Outcome::Parked);
        assert_eq!(counters(&pair).priority_pulls, 1, "the first key leaves at once, alone");
    }
    pair.run_until("all woken", |pair| pair.parked() == 0);
    assert_eq!(counters(&pair).priority_pulls, 1 + 39u64.div_ceil(16));
}

/// A reply ends after the record that passes its bound; the other keys are asked for again.
#[test]
fn priority_pulls_of_large_values_are_answered_in_parts() {
    let mut pair = Pair::new(Setup { source_bytes: 64 << 20, target_bytes: 64 << 20, ..Setup::slow() });
    for n in 0..16 {
        pair.expect_ok(Op::Set(key(n), vec![n as u8; 200 << 10], None));
    }
    pair.start();
    pair.run_until_serving();
    for n in 0..16 {
        pair.ask_at(End::Target, Op::Get(key(n)));
    }
    pair.run_until("all woken", |pair| pair.parked() == 0);
    assert!(counters(&pair).priority_pulls >= 7, "{} pulls", counters(&pair).priority_pulls);
    pair.run_to_end();
    pair.check_end();
}

/// A key that has arrived while its command was on the way to the mover is not asked for.
#[test]
fn a_key_that_is_here_already_wakes_at_once() {
    let mut pair = serving(Setup::slow(), 1_000);
    assert_eq!(pair.ask_at(End::Target, Op::Get(key(3))), Outcome::Parked);
    pair.expect_ok(Op::Set(key(3), b"meanwhile".to_vec(), None));
    pair.run_until("woken", |pair| pair.parked() == 0);
    let before = counters(&pair).priority_pulls;
    assert!(matches!(pair.ask_at(End::Target, Op::Get(key(3))), Outcome::Answered(_)));
    assert_eq!(counters(&pair).priority_pulls, before);
}

/// The priority lane does not queue behind bulk replies.
#[test]
fn a_priority_pull_overtakes_bulk_replies() {
    let faults = Faults { bytes_per_us: 1, ..Faults::NONE };
    let mut pair = serving(Setup { faults, ..Setup::default() }, 5_000);
    let asked_at = pair.now.0;
    assert_eq!(pair.ask_at(End::Target, Op::Get(key(4_000))), Outcome::Parked);
    pair.run_until("woken", |pair| pair.parked() == 0);
    let took_us = pair.now.0 - asked_at;
    assert!(took_us < 1_000, "{took_us} us, with bulk replies of 60 ms under way");
}

#[test]
fn sampled_positions_are_pulled_once_and_one_batch_at_a_time() {
    let mut pair = serving(Setup::slow(), 5_000);
    for n in (0..1_000).chain(0..1_000) {
        pair.read_at_target(&key(n));
    }
    assert_eq!(counters(&pair).samp_pulls, 1, "the others wait for the first to return");
    let early = |pair: &Pair| pair.source_machine.as_ref().unwrap().counters().records_sent_early;
    pair.run_until("all answered", |pair| early(pair) >= 800);
    assert!(counters(&pair).samp_pulls <= 1 + 1_000u64.div_ceil(256) + 1, "{}", counters(&pair).samp_pulls);
    pair.run_until("replayed", |pair| counters(pair).records_moved >= 800);
    assert!(pair.is_settled(HashedKey::new(&key(5))));
}

/// The queue of samples is bounded: what does not fit is dropped, and the migration goes on.
#[test]
fn a_flood_of_samples_is_bounded() {
    let mut pair = serving(Setup::slow(), 1_000);
    for n in 0..100_000 {
        pair.target_input(TargetInput::SampledMiss(Position(n << 40)));
    }
    pair.run_to_end();
    pair.check_end();
    let most = sidle_migration::tuning::SAMPLED_WAITING_MAX as u64 / 256 + 2;
    assert!(counters(&pair).samp_pulls <= most, "{} pulls", counters(&pair).samp_pulls);
}

#[test]
fn late_workers_at_either_end_slow_bulk_pulls_but_not_priority_pulls() {
    let time_to_end = |end: End, lag_us: u64| {
        let faults = Faults { bytes_per_us: 50, ..Faults::NONE };
        let setup = Setup { source_bytes: 32 << 20, target_bytes: 32 << 20, faults, ..Setup::default() };
        let mut pair = serving(setup, 20_000);
        let start = pair.now.0;
        let mut longest_wait = 0;
        let mut n = 0;
        while !pair.import.as_ref().unwrap().progress().all(|next| next.is_none()) {
            // A node that does nothing but move, 100 bytes in a microsecond.
            let cpu_us = counters(&pair).bytes_moved / 100;
            let load = Load { worker_lag_us: lag_us, mover_cpu_us: cpu_us, node_cpu_us: cpu_us };
            match end {
                End::Source => pair.source_input(SourceInput::Load(load)),
                End::Target => pair.target_input(TargetInput::Load(load)),
            }
            n += 1;
            let asked_at = pair.now.0;
            if n % 10 == 0 && pair.ask_at(End::Target, Op::Get(key(n % 20_000))) == Outcome::Parked {
                pair.run_until("woken", |pair| pair.parked() == 0);
                longest_wait = longest_wait.max(pair.now.0 - asked_at);
            }
            pair.step();
        }
        assert!(longest_wait < 1_000, "{longest_wait} us");
        pair.now.0 - start
    };
    for end in [End::Source, End::Target] {
        let (calm, late) = (time_to_end(end, 0), time_to_end(end, 20_000));
        assert!(late > 3 * calm, "{end:?}: {calm} us with workers in time, {late} us with late ones");
    }
}

/// Pulls grow while they are quick, and shrink on a slow way.
#[test]
fn pull_size_adapts() {
    let frames = |bytes_per_us: u64| {
        let faults = Faults { bytes_per_us, ..Faults::NONE };
        let setup = Setup { source_bytes: 64 << 20, target_bytes: 64 << 20, faults, ..Setup::default() };
        let mut pair = serving(setup, 100_000);
        pair.run_to_end();
        pair.check_end();
        pair.net.sent[Lane::Bulk.index()].0
    };
    let (fast, slow) = (frames(10_000), frames(1));
    assert!(slow > 5 * fast, "{fast} frames when fast, {slow} when slow");
}
