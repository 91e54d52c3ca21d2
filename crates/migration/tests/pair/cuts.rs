//! Hand-off: a range that is given bit by bit.

use crate::model::Op;
use crate::net::{Arrival, End, Faults};
use crate::world::{Outcome, Pair, Role, Setup, WORKERS, key};
use sidle_migration::{
    Copies, Cuts, HANDOFF, OUT_OF_TURN_MAX, ProtocolChoices, TargetEvent, TargetInput, Uncovered, protocol,
};
use sidle_types::{GaveAll, HashedKey, MigrationPolicy};
use sidle_wire::Lane;

/// Hand-off in steps that are small beside a test's records.
pub(crate) fn in_small_steps() -> ProtocolChoices {
    in_small_steps_by(Uncovered::Source, OUT_OF_TURN_MAX)
}

/// The same, and all is given once so many positions were given out of turn.
pub(crate) fn with_few_out_of_turn(most: usize) -> ProtocolChoices {
    in_small_steps_by(Uncovered::ByLoad, most)
}

/// The same, with these choices.
pub(crate) fn in_small_steps_by(uncovered: Uncovered, out_of_turn: usize) -> ProtocolChoices {
    let cuts = Cuts { period_us: 500, keys: 4, bytes: 8 << 10, digest: true, out_of_turn, uncovered };
    ProtocolChoices { copies: Copies::BeforeCuts(cuts), partitions: 3, ..HANDOFF }
}

pub(crate) fn setup(seed: u64, protocol: ProtocolChoices) -> Setup {
    let faults =
        Faults { to_target_us: (50, 2_000), to_source_us: (50, 500), linger_per_mille: 100, ..Faults::NONE };
    Setup { seed, faults, ..Setup::of(protocol) }
}

/// Clients with old and new maps, at all workers, while it is given; the model judges each answer. Why all
/// was given at once, if so.
fn writes_everywhere(seed: u64, protocol: ProtocolChoices) -> Option<GaveAll> {
    const KEYS: u64 = 600;
    let mut pair = Pair::with_records(setup(seed, protocol), KEYS, 100);
    pair.begin();
    for n in 0.. {
        let k = pair.rng.below(KEYS + 20);
        let op = match n % 6 {
            0 | 1 => Op::Set(key(k), format!("{n}").into_bytes(), None),
            2 => Op::Del(key(k)),
            3 => Op::Append(key(k), b"+".to_vec()),
            4 => Op::SetNx(key(k), b"nx".to_vec()),
            _ => Op::Get(key(k)),
        };
        let (end, worker) = match pair.rng.permille(900) {
            true => (End::Source, pair.rng.below(WORKERS as u64) as usize),
            false => (End::Target, pair.rng.below(WORKERS as u64) as usize),
        };
        assert_ne!(pair.at(end, worker, op), Outcome::OutOfMemory);
        pair.pump();
        if pair.rng.permille(2) {
            pair.net.cut(
                pair.now.0,
                if pair.rng.permille(500) { Lane::Bulk } else { Lane::Priority },
                &mut pair.rng,
            );
        }
        if !pair.step() || n == 20_000 {
            break;
        }
    }
    pair.ends_well();
    pair.check_all_answered();
    gave_all(&pair)
}

/// Why all was given at once, if so.
fn gave_all(pair: &Pair) -> Option<GaveAll> {
    pair.target_events.iter().find_map(|event| match event {
        TargetEvent::GaveAll(why) => Some(*why),
        _ => None,
    })
}

/// The story of every fault of cuts: within these seeds somebody sees it.
pub(crate) fn writes_everywhere_while_it_is_given() {
    (0..20).for_each(|seed| assert_eq!(writes_everywhere(seed, in_small_steps()), None));
}

/// The same of cuts that give all: when some positions were given out of turn.
pub(crate) fn writes_everywhere_while_all_is_given() {
    let gave_all = (0..40).filter(|&seed| {
        let protocol = with_few_out_of_turn(1 + seed as usize % 10);
        writes_everywhere(seed, protocol) == Some(GaveAll::TableFull)
    });
    let gave_all = gave_all.count();
    assert!(gave_all > 10, "{gave_all}");
}

/// A copy that was packed before its key was deleted and taken arrives after that.
pub(crate) fn late_copy_of_what_was_taken() {
    let mut pair = Pair::with_records(Setup::of(in_small_steps()), 300, 100);
    pair.net.record = Some(Vec::new());
    pair.begin();
    let pulls = |pair: &Pair| pair.target_machine.as_ref().unwrap().counters().pulls;
    pair.run_until("copies are requested", |pair| pulls(pair) > 0);
    pair.net.faults.blocked = Some(Lane::Bulk);
    let sent = |pair: &Pair| pair.source_machine.as_ref().unwrap().counters().records_sent;
    pair.run_until("copies leave", |pair| sent(pair) > 0);
    pair.run_until("it is the target's", |pair| pair.target.roles == [Role::Importing; WORKERS]);
    for n in 0..300 {
        pair.at(End::Source, 0, Op::Del(key(n)));
        pair.at(End::Target, 0, Op::Get(key(n)));
        pair.pump();
    }
    pair.run_until("they are taken", |pair| pair.parked() == 0);
    pair.net.faults.blocked = None;
    for (to, lane, frame) in pair.net.record.take().unwrap() {
        if (to, lane) == (End::Target, Lane::Bulk) {
            pair.arrive(Arrival::Message(lane, to.side(), frame));
        }
    }
    pair.ends_well();
}

/// Every reply of a cut comes again, when the target has long changed what it was given.
pub(crate) fn replies_that_come_again() {
    let mut pair = Pair::with_records(Setup::slow(in_small_steps()), 300, 100);
    pair.net.record = Some(Vec::new());
    pair.begin_to_the_middle();
    for n in 0..50 {
        pair.client(Op::Get(key(n)));
    }
    pair.run_until("they are taken", |pair| pair.parked() == 0);
    for n in 0..50 {
        pair.client(Op::Set(key(n), b"newer".to_vec(), None));
    }
    for (to, lane, frame) in pair.net.record.take().unwrap() {
        if (to, lane) == (End::Target, Lane::Priority) {
            pair.arrive(Arrival::Message(lane, to.side(), frame));
        }
    }
    pair.ends_well();
}

/// Clients write while a flush waits for the cut that is under way, and for its own.
pub(crate) fn flushes_that_overtake_a_cut() {
    const KEYS: u64 = 600;
    for seed in 0..20 {
        let mut pair = Pair::with_records(setup(seed, in_small_steps()), KEYS, 100);
        pair.begin();
        pair.run_until("it is the target's", |pair| pair.target.roles == [Role::Importing; WORKERS]);
        let before_us = pair.rng.below(10_000);
        pair.run_us(before_us);
        pair.client(Op::Flush);
        while !pair.target_events.contains(&TargetEvent::Finished) && pair.step() {
            let key = key(pair.rng.below(KEYS));
            let op = match pair.rng.below(3) {
                0 => Op::Get(key),
                1 => Op::Append(key, b"+".to_vec()),
                _ => Op::Set(key, b"set".to_vec(), None),
            };
            let end = if pair.rng.permille(300) { End::Source } else { End::Target };
            assert_ne!(pair.at(end, 0, op), Outcome::OutOfMemory);
            pair.pump();
        }
        pair.ends_well();
        pair.check_all_answered();
    }
}

#[test]
fn each_position_has_one_owner_while_it_is_given() {
    (100..140).for_each(|seed| assert_eq!(writes_everywhere(seed, in_small_steps()), None));
}

#[test]
fn all_is_given_by_the_first_cut_where_the_target_serves_what_is_uncovered() {
    let protocol = in_small_steps_by(Uncovered::Target, OUT_OF_TURN_MAX);
    (0..20).for_each(|seed| assert_eq!(writes_everywhere(seed, protocol), Some(GaveAll::Option)));
}

#[test]
fn all_is_given_when_no_more_positions_can_be_given_out_of_turn() {
    writes_everywhere_while_all_is_given();
}

#[test]
fn the_source_serves_what_it_has_not_given_and_the_target_takes_what_is_requested() {
    let mut pair = Pair::with_records(Setup::slow(in_small_steps()), 2_000, 100);
    pair.begin_to_the_middle();
    let kept = (0..2_000).map(key).find(|key| !pair.is_settled(HashedKey::new(key))).expect("much is kept");
    assert!(matches!(pair.at(End::Source, 0, Op::Append(kept.clone(), b"!".to_vec())), Outcome::Answered(_)));
    assert_eq!(pair.at(End::Target, 0, Op::Get(kept.clone())), Outcome::Parked);
    pair.pump();
    pair.run_until("it is taken", |pair| pair.parked() == 0);
    assert_eq!(pair.at(End::Source, 0, Op::Get(kept.clone())), Outcome::Redirected);
    assert!(matches!(pair.at(End::Target, 0, Op::Get(kept)), Outcome::Answered(_)));
    pair.ends_well();
}

#[test]
fn both_ends_count_each_key_once() {
    let mut pair = Pair::with_records(Setup::slow(in_small_steps()), 2_000, 100);
    pair.begin();
    let counted = |pair: &Pair| {
        let kept = pair.export.as_ref().unwrap().kept_records(pair.source.store.len());
        kept + pair.target.store.len() - pair.import.as_ref().unwrap().inert_records()
    };
    let mut keys = 2_000;
    for n in 0.. {
        if n % 3 == 0 {
            pair.client(Op::Del(key(n)));
            pair.client(Op::Set(key(10_000 + n), b"new".to_vec(), None));
            pair.client(Op::Set(key(20_000 + n), b"new".to_vec(), None));
            pair.run_until("answered", |pair| pair.parked() == 0);
            keys += 1;
        }
        pair.run_us(700);
        let is_over =
            pair.target_events.iter().any(|event| matches!(event, sidle_migration::TargetEvent::Finished));
        if is_over || n == 600 {
            break;
        }
        // What is in transit is counted by nobody, or by both.
        let off = counted(&pair).abs_diff(keys);
        assert!(off < 40, "{off} of {keys}");
        pair.run_until("nothing is in transit", |pair| {
            counted(pair) == keys
                || pair.export.as_ref().unwrap().phase() != sidle_migration::ExportPhase::Tracking
        });
    }
    pair.ends_well();
}

/// All is copied and much has changed since, more than the target has memory for: then all is owed.
#[test]
fn all_is_owed_where_there_is_no_memory_for_what_has_changed() {
    let protocol = protocol("handoff,uncovered=load,out-of-turn=1,cut-period=1000000").unwrap();
    let mut pair = Pair::with_records(Setup { target_bytes: 2 << 20, ..Setup::of(protocol) }, 500, 100);
    pair.begin();
    pair.run_until("it is the target's", |pair| pair.target.roles == [Role::Importing; WORKERS]);
    pair.client(Op::Get(key(0)));
    pair.run_until("all is copied", |pair| pair.target.store.len() == 500 && pair.parked() == 0);
    for n in 1..500 {
        let op = Op::Set(key(n), vec![b'x'; 6_000], None);
        assert!(matches!(pair.at(End::Source, 0, op), Outcome::Answered(_)));
    }
    pair.client(Op::Get(key(1)));
    pair.run_until("all is given", |pair| gave_all(pair) == Some(GaveAll::TableFull));
    assert!(pair.import.as_ref().unwrap().missing_keys() > 450, "nothing that was copied counts");
    pair.run_until("answered", |pair| pair.parked() == 0);
    pair.client(Op::Flush);
    pair.ends_well();
}

/// Where everything is given at once, the pulls of the copy made ahead are forgotten, and what they asked for
/// does not count against the rate.
#[test]
fn forgotten_pulls_take_nothing_from_the_rate() {
    let mut pair = Pair::with_records(Setup::of(in_small_steps_by(Uncovered::Target, 8)), 40, 100);
    pair.prepare();
    pair.target_input(TargetInput::Policy(MigrationPolicy::Rate { bytes_per_s: 20_000 }));
    let begun = pair.now.0;
    pair.commit();
    pair.ends_well();
    let counters = pair.target_machine.as_ref().unwrap().counters();
    assert_eq!(gave_all(&pair), Some(GaveAll::Option));
    assert!(counters.bytes_moved < 10_000, "{counters:?}");
    let took_us = pair.now.0 - begun;
    assert!(took_us < 1_000_000, "{took_us} us for {} bytes", counters.bytes_moved);
}
