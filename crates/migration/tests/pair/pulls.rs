//! Priority pulls, sampled pulls and pacing: how requests are batched, de-duplicated and ordered.

use crate::model::{Answer, Op};
use crate::net::{End, Faults};
use crate::protocols::{
    for_every_protocol, for_protocols_that, pulls_keys_ahead, samples, serves_in_the_middle,
    serves_while_it_fills,
};
use crate::world::{Outcome, Pair, Setup, key};
use sidle_migration::tuning::PRIORITY_WAITERS_MAX;
use sidle_migration::{
    ImporterCounters, Load, OnMissing, Pace, PriorityPulls, ProtocolChoices, PullBytes, SourceInput,
    TargetEvent, TargetInput, Waiter, WaiterRefusal,
};
use sidle_types::{HashedKey, Position};
use sidle_wire::Lane;

fn counters(pair: &Pair) -> ImporterCounters {
    pair.target_machine.as_ref().unwrap().counters()
}

fn serving(setup: Setup, records: u64) -> Pair {
    Pair::in_the_middle(setup, records, 100)
}

#[test]
fn many_commands_that_wait_for_one_key_pull_it_once() {
    for_protocols_that(pulls_keys_ahead, |protocol| {
        let mut pair = serving(Setup::slow(protocol), 1_000);
        for _ in 0..50 {
            assert_eq!(pair.client(Op::Get(key(500))), Outcome::Parked);
        }
        pair.run_until("all woken", |pair| pair.parked() == 0);
        assert_eq!(counters(&pair).priority_pulls, 1);
        assert_eq!(pair.source_machine.as_ref().unwrap().counters().records_sent_early, 1);
        assert_eq!(pair.woken.len(), 50);
    });
}

/// A waiter that left still counts, and while the source does not answer others may arrive for ever.
#[test]
fn more_commands_than_may_wait_are_refused() {
    for_protocols_that(serves_while_it_fills, |protocol| {
        let mut pair = serving(Setup::slow(protocol), 1_000);
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
    });
}

/// Otherwise its places would be taken in vain until its keys arrive.
#[test]
fn a_command_that_is_refused_gives_its_places_back_and_takes_no_more() {
    for_protocols_that(serves_while_it_fills, |protocol| {
        let mut pair = serving(Setup::slow(protocol), 1_000);
        let most = PRIORITY_WAITERS_MAX as u64;
        let mut ask = |ticket: u64, key: Vec<u8>| {
            pair.target_input(TargetInput::PriorityPull(&key, Waiter { worker: 0, ticket }));
            let machine = pair.target_machine.as_mut().unwrap();
            let full = machine.queues().find(|fill| fill.count > fill.most);
            assert!(full.is_none(), "{full:?}");
            std::iter::from_fn(|| machine.poll_event()).collect::<Vec<TargetEvent>>()
        };
        for ticket in 0..most - 10 {
            assert_eq!(ask(ticket, key(ticket % 500)), []);
        }
        // A command over twenty keys; others wait for some of them, too.
        let refused = [TargetEvent::Refuse(Waiter { worker: 0, ticket: most }, WaiterRefusal::TooManyWait)];
        for n in 0..20 {
            let events = ask(most, key(490 + n));
            assert_eq!(events, if n < 10 { &[][..] } else { &refused }, "key {n}");
        }
        for n in 0..10 {
            assert_eq!(ask(most + 1 + n, key(495 + n)), [], "there is a place");
        }
        assert_ne!(ask(most + 11, key(0)), [], "and no more");
    });
}

#[test]
fn priority_pulls_go_in_batches_so_many_in_flight() {
    for_protocols_that(pulls_keys_ahead, |protocol| {
        let mut pair = serving(Setup::slow(protocol), 1_000);
        let PriorityPulls { batch, in_flight } = protocol.priority;
        let first = in_flight as u64;
        for n in 0..40 {
            assert_eq!(pair.client(Op::Get(key(n))), Outcome::Parked);
            assert_eq!(
                counters(&pair).priority_pulls,
                first.min(n + 1),
                "the first keys leave at once, alone"
            );
        }
        pair.run_until("all woken", |pair| pair.parked() == 0);
        assert_eq!(counters(&pair).priority_pulls, first + (40 - first).div_ceil(batch as u64));
    });
}

/// A reply ends after the record that passes its bound; the other keys are asked for again.
#[test]
fn priority_pulls_of_large_values_are_answered_in_parts() {
    for_protocols_that(pulls_keys_ahead, |protocol| {
        let mut pair =
            Pair::new(Setup { source_bytes: 64 << 20, target_bytes: 64 << 20, ..Setup::slow(protocol) });
        for n in 0..16 {
            pair.expect_ok(Op::Set(key(n), vec![n as u8; 200 << 10], None));
        }
        pair.begin_to_the_middle();
        for n in 0..16 {
            pair.client(Op::Get(key(n)));
        }
        pair.run_until("all woken", |pair| pair.parked() == 0);
        assert!(counters(&pair).priority_pulls >= 7, "{} pulls", counters(&pair).priority_pulls);
        pair.ends_well();
    });
}

/// A key that arrived while its command was on the way to the mover is not pulled.
#[test]
fn a_key_that_is_here_already_wakes_at_once() {
    for_protocols_that(serves_while_it_fills, |protocol| {
        let mut pair = serving(Setup::slow(protocol), 1_000);
        assert_eq!(pair.client(Op::Get(key(3))), Outcome::Parked);
        pair.expect_ok(Op::Set(key(3), b"meanwhile".to_vec(), None));
        pair.run_until("woken", |pair| pair.parked() == 0);
        let before = counters(&pair).priority_pulls;
        assert!(matches!(pair.client(Op::Get(key(3))), Outcome::Answered(_)));
        assert_eq!(counters(&pair).priority_pulls, before);
    });
}

/// A retrying client need not wait for its key's turn, and learns if there is none.
#[test]
fn a_client_that_comes_again_finds_its_key() {
    let retries = |protocol: &ProtocolChoices| matches!(protocol.missing, OnMissing::SaysRetry { .. });
    for_protocols_that(retries, |protocol| {
        let mut pair = serving(Setup::slow(protocol), 1_000);
        let found = Outcome::Answered(Answer::Value(Some(format!("{:>100}", 500).into_bytes())));
        let absent = Outcome::Answered(Answer::Value(None));
        for (wanted, answer) in [(&key(500)[..], found), (b"never", absent)] {
            let before = counters(&pair).priority_pulls;
            for _ in 0..50 {
                assert_eq!(pair.read_at_target(wanted), None, "it is told to come again");
            }
            pair.run_until("it is here", |pair| pair.is_settled(HashedKey::new(wanted)));
            assert_eq!(pair.read_at_target(wanted), Some(answer));
            assert_eq!(counters(&pair).priority_pulls, before + 1);
        }
        assert!(!pair.target_events.contains(&TargetEvent::Finished), "long before the end");
        pair.ends_well();
    });
}

/// The priority lane does not queue behind bulk replies.
#[test]
fn a_priority_pull_overtakes_bulk_replies() {
    for_protocols_that(pulls_keys_ahead, |protocol| {
        let faults = Faults { bytes_per_us: 1, ..Faults::NONE };
        let mut pair = serving(Setup { faults, ..Setup::of(protocol) }, 5_000);
        let asked_at = pair.now.0;
        assert_eq!(pair.client(Op::Get(key(4_000))), Outcome::Parked);
        pair.run_until("woken", |pair| pair.parked() == 0);
        let took_us = pair.now.0 - asked_at;
        assert!(took_us < 1_000, "{took_us} us, with bulk replies of 60 ms under way");
    });
}

#[test]
fn sampled_positions_are_pulled_once_and_one_batch_at_a_time() {
    for_protocols_that(samples, |protocol| {
        let batch = protocol.sampling.unwrap().batch as u64;
        let mut pair = serving(Setup::slow(protocol), 5_000);
        for n in (0..1_000).chain(0..1_000) {
            pair.read_at_target(&key(n));
        }
        assert_eq!(counters(&pair).samp_pulls, 1, "the others wait for the first to return");
        let early = |pair: &Pair| pair.source_machine.as_ref().unwrap().counters().records_sent_early;
        pair.run_until("all answered", |pair| early(pair) >= 800);
        assert!(
            counters(&pair).samp_pulls <= 1 + 1_000u64.div_ceil(batch) + 1,
            "{}",
            counters(&pair).samp_pulls
        );
        pair.run_until("replayed", |pair| counters(pair).records_moved >= 800);
        assert!(pair.is_settled(HashedKey::new(&key(5))));
    });
}

/// The queue of samples is bounded: excess ones are dropped, and the migration continues.
#[test]
fn a_flood_of_samples_is_bounded() {
    for_protocols_that(samples, |protocol| {
        let batch = protocol.sampling.unwrap().batch as u64;
        let mut pair = serving(Setup::slow(protocol), 1_000);
        for n in 0..100_000 {
            pair.target_input(TargetInput::SampledMiss(Position(n << 40)));
        }
        pair.ends_well();
        let most = sidle_migration::tuning::SAMPLED_WAITING_MAX as u64 / batch + 2;
        assert!(counters(&pair).samp_pulls <= most, "{} pulls", counters(&pair).samp_pulls);
    });
}

#[test]
fn late_workers_at_either_end_slow_bulk_pulls_but_not_priority_pulls() {
    for_every_protocol(|protocol| {
        let time_to_end = |end: End, lag_us: u64| {
            let faults = Faults { bytes_per_us: 50, ..Faults::NONE };
            let setup =
                Setup { source_bytes: 32 << 20, target_bytes: 32 << 20, faults, ..Setup::of(protocol) };
            let mut pair = serving(setup, 20_000);
            let start = pair.now.0;
            let mut longest_wait = 0;
            let mut n = 0;
            while !pair.import.as_ref().unwrap().progress().all(|next| next.is_none()) {
                // A node that only moves records, 100 bytes in a microsecond.
                let cpu_us = counters(&pair).bytes_moved / 100;
                let load = Load {
                    worker_lag_us: lag_us,
                    mover_cpu_us: cpu_us,
                    node_cpu_us: cpu_us,
                    spare_permille: 0,
                };
                match end {
                    End::Source => pair.source_input(SourceInput::Load(load)),
                    End::Target => pair.target_input(TargetInput::Load(load)),
                }
                n += 1;
                let asked_at = pair.now.0;
                let asks = n % 10 == 0 && serves_in_the_middle(&protocol);
                if asks && pair.client(Op::Get(key(n % 20_000))) == Outcome::Parked {
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
            let slows = protocol.pace == Pace::YieldsToClients;
            assert_eq!(late > 3 * calm, slows, "{end:?}: {calm} us, {late} us with late workers");
        }
    });
}

/// If the protocol allows it, pulls grow while they are fast, and shrink on a slow path.
#[test]
fn pull_size_adapts() {
    for_every_protocol(|protocol| {
        let frames = |bytes_per_us: u64| {
            let faults = Faults { bytes_per_us, ..Faults::NONE };
            let setup =
                Setup { source_bytes: 64 << 20, target_bytes: 64 << 20, faults, ..Setup::of(protocol) };
            let mut pair = serving(setup, 40_000);
            pair.ends_well();
            pair.net.sent[Lane::Bulk.index()].0
        };
        let (fast, slow) = (frames(10_000), frames(1));
        let adapts = matches!(protocol.pulls, PullBytes::Adaptive(_));
        assert_eq!(slow > 5 * fast, adapts, "{fast} frames when fast, {slow} when slow");
    });
}
