//! Hand-off that turns back: another migration continues from where it stands, the other way.

use crate::cuts::{in_small_steps, with_few_out_of_turn};
use crate::model::Op;
use crate::net::{End, Faults};
use crate::world::{Outcome, Pair, Setup, WORKERS, key};
use sidle_migration::{ProtocolChoices, TargetEvent, protocol};
use sidle_store::Entry;
use sidle_types::HashedKey;
use sidle_wire::Lane;

const KEYS: u64 = 300;

/// Slow enough to turn in the middle.
fn setup(seed: u64, protocol: ProtocolChoices) -> Setup {
    Setup { tuning: Setup::slow(protocol).tuning, ..crate::cuts::setup(seed, protocol) }
}

/// Clients with old and new maps, at all workers; the model judges each answer. Until so many operations have
/// run, or the migration is over.
fn writes(pair: &mut Pair, operations: u64) {
    for n in 0..operations {
        let k = pair.rng.below(KEYS + 20);
        let op = match n % 5 {
            0 => Op::Set(key(k), format!("{n}").into_bytes(), None),
            1 | 2 => Op::Del(key(k)),
            3 => Op::SetNx(key(k), b"nx".to_vec()),
            _ => Op::Get(key(k)),
        };
        let end = if pair.rng.permille(900) { End::Source } else { End::Target };
        let worker = pair.rng.below(WORKERS as u64) as usize;
        assert_ne!(pair.at(end, worker, op), Outcome::OutOfMemory);
        pair.pump();
        if pair.rng.permille(2) {
            let lane = if pair.rng.permille(500) { Lane::Bulk } else { Lane::Priority };
            pair.net.cut(pair.now.0, lane, &mut pair.rng);
        }
        if !pair.step() {
            return;
        }
    }
}

/// Turns back up to three times, each time somewhere in the middle; how often it did.
fn turns(seed: u64, protocol: ProtocolChoices) -> u64 {
    let mut pair = Pair::with_records(setup(seed, protocol), KEYS, 100);
    pair.begin();
    let mut turns = 0;
    while turns < 3 {
        let operations = pair.rng.below(150);
        writes(&mut pair, operations);
        match pair.turned_back(setup(seed + 1_000 * (turns + 1), protocol)) {
            Ok(back) => pair = back,
            Err(ended) => {
                pair = *ended;
                break;
            }
        }
        turns += 1;
    }
    writes(&mut pair, 20_000);
    pair.ends_well();
    pair.check_all_answered();
    turns
}

/// The story of the faults of turns: within these seeds somebody sees them.
pub(crate) fn writes_everywhere_while_it_turns() {
    let turned = (0..30).filter(|&seed| turns(seed, in_small_steps()) == 3).count();
    assert!(turned >= 10, "{turned}");
}

/// What was copied and not given is deleted where it was kept, after the turn.
pub(crate) fn delete_behind_an_inert_copy() {
    // The first cut comes early, and the next one late.
    let seldom = protocol("handoff,cut-period=1000000,cut-bytes=8192,hot-first=off").unwrap();
    let mut pair = Pair::with_records(Setup::slow(seldom), KEYS, 100);
    pair.begin_to_the_middle();
    let is_inert = |pair: &Pair, key: &[u8]| {
        let key = HashedKey::new(key);
        let is_here = !matches!(pair.target.store.pin().get(key), Entry::Absent);
        is_here && !pair.import.as_ref().unwrap().has_arrived(key.position())
    };
    let inert = |pair: &Pair| (0..KEYS).map(key).filter(|key| is_inert(pair, key)).collect::<Vec<_>>();
    pair.run_until("much is copied and not given", |pair| inert(pair).len() > 20);
    let copied = inert(&pair);
    let mut back = pair.turned_back(Setup::slow(in_small_steps())).unwrap_or_else(|_| panic!("most is kept"));
    for key in copied {
        back.at(End::Target, 0, Op::Del(key));
    }
    back.ends_well();
}

#[test]
fn inert_copies_stay_behind() {
    delete_behind_an_inert_copy();
}

#[test]
fn each_position_has_one_owner_over_every_turn() {
    writes_everywhere_while_it_turns();
}

fn settled(pair: &Pair) -> Option<bool> {
    pair.target_events.iter().find_map(|event| match event {
        TargetEvent::Settled { owns } => Some(*owns),
        _ => None,
    })
}

#[test]
fn a_turn_waits_for_the_cut_in_transit_and_no_further() {
    let mut pair = Pair::with_records(Setup::slow(in_small_steps()), KEYS, 100);
    pair.begin_to_the_middle();
    let gave = |pair: &Pair| pair.export.as_ref().unwrap().given_records();
    pair.net.faults.blocked = Some(Lane::Priority);
    let before = gave(&pair);
    pair.run_until("a cut is packed", |pair| gave(pair) > before);
    pair.target_input(sidle_migration::TargetInput::TurnsBack);
    pair.run_us(50_000);
    assert_eq!(settled(&pair), None, "nobody else could end it");
    pair.net.faults.blocked = None;
    pair.run_us(50_000);
    assert_eq!(settled(&pair), Some(true));
    let cuts = pair.target_machine.as_ref().unwrap().counters().cuts;
    pair.run_us(500_000);
    assert_eq!(pair.target_machine.as_ref().unwrap().counters().cuts, cuts, "no further cut is requested");
    assert_eq!(pair.target.store.len(), gave(&pair), "what is here is the target's: no inert copy is left");
    let back = pair.turned_back(Setup::of(in_small_steps()));
    back.unwrap_or_else(|_| panic!("most of it is kept")).ends_well();
}

#[test]
fn a_turn_before_anything_was_given_owns_nothing() {
    let mut pair = Pair::with_records(Setup::of(in_small_steps()), KEYS, 100);
    pair.prepare();
    pair.target_input(sidle_migration::TargetInput::TurnsBack);
    pair.commit();
    pair.run_us(100_000);
    assert_eq!(settled(&pair), Some(false));
    assert!(pair.target.store.is_empty());
    assert_eq!(pair.export.as_ref().unwrap().given_records(), 0);
}

#[test]
fn all_may_be_given_back_at_once() {
    for seed in 0..20 {
        let protocol = with_few_out_of_turn(1 + seed as usize % 5);
        let mut pair = Pair::with_records(setup(seed, in_small_steps()), KEYS, 100);
        pair.begin();
        writes(&mut pair, 100);
        let back = pair.turned_back(Setup { faults: Faults::NONE, ..setup(seed, protocol) });
        let mut back = back.unwrap_or_else(|_| panic!("most of it is kept"));
        writes(&mut back, 20_000);
        back.ends_well();
        back.check_all_answered();
    }
}
