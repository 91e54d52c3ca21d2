//! Large collections: they arrive chunk by chunk, and what changes meanwhile comes as patches.

use crate::model::{Bytes, Op};
use crate::net::{End, Faults};
use crate::protocols::{by_cuts, copies_ahead, for_every_protocol, for_protocols_that};
use crate::world::{Outcome, Pair, Setup, WORKERS, key};
use sidle_migration::{FULVA, HANDOFF, ImporterCounters, ProtocolChoices, TargetEvent, protocol};
use sidle_types::HashedKey;
use sidle_wire::{HEADER_BYTES, Kind, Lane};

const CHUNKS: u64 = 2_000;
const CHUNK_BYTES: usize = 150;
const PIECE_BYTES: u32 = 4_000;

fn name() -> Bytes {
    b"collection".to_vec()
}

fn chunk(n: u64) -> Bytes {
    let mut bytes = vec![b'c'; CHUNK_BYTES];
    bytes[..8].copy_from_slice(&n.to_le_bytes());
    bytes
}

/// Twice as many labels as chunks.
fn set(label: u64, n: u64) -> Op {
    Op::Chunk(name(), label % (2 * CHUNKS), Some(chunk(n)))
}

fn remove(label: u64) -> Op {
    Op::Chunk(name(), label % (2 * CHUNKS), None)
}

fn with_a_collection(mut setup: Setup) -> Pair {
    setup.tuning.piece_bytes = PIECE_BYTES;
    let mut pair = Pair::with_records(setup, 200, 100);
    (0..CHUNKS).for_each(|n| drop(pair.expect_ok(set(2 * n, n))));
    pair
}

fn slow(seed: u64, protocol: ProtocolChoices) -> Setup {
    Setup { seed, faults: Faults { bytes_per_us: 20, ..Faults::NONE }, ..Setup::of(protocol) }
}

fn counters(pair: &Pair) -> ImporterCounters {
    pair.target_machine.as_ref().unwrap().counters()
}

fn is_over(pair: &Pair) -> bool {
    pair.target_events.contains(&TargetEvent::Finished)
}

/// Changes at whichever end owns it, at every step; the model judges each.
fn changes_until_the_end(pair: &mut Pair, target_per_mille: u64) {
    pair.begin();
    for n in 0.. {
        if is_over(pair) {
            break;
        }
        assert!(n < 20_000, "it never ends");
        let label = pair.rng.below(2 * CHUNKS);
        let ops = match n % 5 {
            0 => vec![remove(label)],
            // Adjacent ones, so that leaves of the outline empty.
            1 if n % 15 == 1 => (label..label + 40).map(remove).collect(),
            _ => vec![set(label, n)],
        };
        for op in ops {
            let worker = pair.rng.below(WORKERS as u64) as usize;
            // Some ask the target, and wait there.
            let is_asked_there = pair.parked() < 3 && pair.rng.permille(target_per_mille);
            let end = if is_asked_there { End::Target } else { End::Source };
            assert_ne!(pair.at(end, worker, op), Outcome::OutOfMemory);
        }
        pair.pump();
        pair.step();
    }
}

/// The story of the faults of patches.
pub(crate) fn changes_while_a_collection_is_given() {
    for seed in 0..3 {
        let mut pair = with_a_collection(slow(seed, HANDOFF));
        changes_until_the_end(&mut pair, 0);
        pair.ends_well();
    }
}

#[test]
fn changed_all_the_time() {
    for_every_protocol(|protocol| {
        for seed in 0..3 {
            let mut pair = with_a_collection(slow(seed, protocol));
            changes_until_the_end(&mut pair, seed * 20);
            pair.ends_well();
            pair.check_no_breach();
            pair.check_all_answered();
            assert!(counters(&pair).collections >= 1, "it came chunk by chunk: {:?}", counters(&pair));
            pair.target.store.check_accounting().unwrap();
            pair.source.store.check_accounting().unwrap();
        }
    });
}

/// Whatever is lost, doubled or overtaken.
#[test]
fn changed_all_the_time_over_a_bad_network() {
    for_every_protocol(|protocol| {
        for seed in 0..3 {
            let mut pair = with_a_collection(slow(seed, protocol));
            pair.net.faults = Faults { duplicate_per_mille: 200, reorder: true, ..pair.net.faults };
            pair.begin();
            for n in 0.. {
                if is_over(&pair) {
                    break;
                }
                if n % 50 == 7 {
                    let lane = if pair.rng.permille(500) { Lane::Bulk } else { Lane::Priority };
                    pair.net.cut(pair.now.0, lane, &mut pair.rng);
                }
                let label = pair.rng.below(2 * CHUNKS);
                let op = if n % 3 == 0 { remove(label) } else { set(label, n) };
                pair.at(End::Source, 0, op);
                pair.pump();
                pair.step();
            }
            pair.ends_well();
        }
    });
}

/// Bytes of cuts that travelled while nobody owned what they gave.
fn bytes_in_transit(pair: &Pair) -> usize {
    let frames = pair.net.record.as_ref().unwrap();
    let is_cut = |frame: &&(End, Lane, Vec<u8>)| frame.0 == End::Target && frame.2[5] == Kind::CutReply as u8;
    frames.iter().filter(is_cut).map(|(_, _, frame)| frame.len() - HEADER_BYTES).sum()
}

/// What is sent again is as much as what has changed, however long the collection is.
#[test]
fn patches_are_as_long_as_what_changed() {
    for_protocols_that(
        |protocol| copies_ahead(protocol) || by_cuts(protocol) || protocol.copies_collections_ahead(),
        |protocol| {
            let mut pair = with_a_collection(Setup::of(protocol));
            pair.net.record = Some(Vec::new());
            pair.begin();
            let mut changes = 0;
            while !is_over(&pair) {
                let label = pair.rng.below(2 * CHUNKS);
                if pair.rng.permille(100) && pair.at(End::Source, 0, set(label, 1)) != Outcome::Redirected {
                    changes += 1;
                }
                pair.pump();
                pair.step();
            }
            pair.ends_well();
            let counters = counters(&pair);
            let all = CHUNKS * CHUNK_BYTES as u64;
            // A change is sent once or a few times, with the labels of its neighbours.
            let most = 20_000 + changes * 4 * (CHUNK_BYTES as u64 + 20 * 9) * 2;
            assert!(counters.patch_bytes <= most, "{} changes: {counters:?}", changes);
            assert!(counters.bytes_moved < 2 * all + most, "{counters:?}");
            assert_eq!(counters.collections, 1, "{counters:?}");
            if by_cuts(&protocol) {
                let bytes = bytes_in_transit(&pair) as u64;
                assert!(bytes < all / 4, "{bytes} bytes in transit, {changes} changes");
            }
        },
    );
}

fn is_ahead(protocol: &ProtocolChoices) -> bool {
    protocol.copies_collections_ahead()
}

/// The collection is copied, its source serves on, and bulk pulls are slow.
fn copied_ahead(protocol: ProtocolChoices) -> Pair {
    let mut pair = with_a_collection(Setup::of(protocol));
    pair.prepare();
    pair.run_until_it_may_be_committed();
    assert_eq!((counters(&pair).collections_ahead, counters(&pair).collections), (1, 0));
    assert!(pair.target.store.is_empty(), "no key has it");
    pair
}

fn at_source(pair: &mut Pair, op: Op) {
    let outcome = pair.at(End::Source, 0, op);
    assert!(matches!(outcome, Outcome::Answered(_)), "{outcome:?}");
}

/// What travelled to the target from now on.
fn bytes_from_now(pair: &mut Pair, then: impl FnOnce(&mut Pair)) -> usize {
    pair.net.record = Some(Vec::new());
    then(pair);
    let frames = pair.net.record.take().unwrap();
    frames.iter().filter(|(end, ..)| *end == End::Target).map(|(_, _, frame)| frame.len()).sum()
}

/// The story of the fault of what is copied ahead.
pub(crate) fn changes_behind_a_copy() {
    let mut pair = copied_ahead(FULVA);
    (0..40).for_each(|n| at_source(&mut pair, set(n * 7, 5)));
    pair.commit();
    pair.run_until_serving();
    (0..40).for_each(|n| drop(pair.client(remove(n * 7))));
    pair.ends_well();
}

/// A command that needs it right behind the freeze waits for what has changed, and for no more.
#[test]
fn what_was_copied_ahead_travels_as_a_patch() {
    for_protocols_that(is_ahead, |protocol| {
        let mut pair = copied_ahead(protocol);
        pair.commit();
        // The source's workers serve on until they use the new table.
        (0..20).for_each(|n| drop(pair.at(End::Source, 0, set(n * 9, 5))));
        pair.run_until_serving();
        let bytes = bytes_from_now(&mut pair, |pair| {
            pair.client(remove(2));
            pair.client(set(40, 7));
            pair.run_until("answered", |pair| pair.parked() == 0);
        });
        // Beside it go bulk pulls of other keys: 200 of 100 bytes.
        assert!(bytes < 80_000, "{bytes} bytes");
        pair.ends_well();
        let counters = counters(&pair);
        let all = CHUNKS * CHUNK_BYTES as u64;
        assert!((1..30_000).contains(&counters.patch_bytes), "{counters:?}");
        assert!(counters.bytes_moved < 2 * all, "{counters:?}");
        assert_eq!((counters.collections, counters.collections_ahead), (1, 1));
    });
}

/// Where no key is pulled before its turn, the partition's pull brings the patch.
#[test]
fn a_patch_may_come_in_its_turn() {
    for text in ["fulva,priority-pulls=0", "rocksteady,priority-pulls=0,missing=wait"] {
        let mut pair = copied_ahead(protocol(text).unwrap());
        (0..40).for_each(|n| at_source(&mut pair, set(n * 7, 5)));
        pair.commit();
        pair.run_until_serving();
        pair.client(remove(2));
        pair.ends_well();
        pair.check_all_answered();
        let counters = counters(&pair);
        assert_eq!((counters.collections, counters.priority_pulls), (1, 0), "{counters:?}");
        assert!(counters.bytes_moved < 2 * CHUNKS * CHUNK_BYTES as u64, "{counters:?}");
    }
}

/// Gone, replaced by a string, replaced by another collection, flushed: while it is copied, and behind that.
#[test]
fn a_collection_ends_while_it_is_copied_ahead() {
    let replacements: [fn(&mut Pair); 4] = [
        |pair| at_source(pair, Op::Del(name())),
        |pair| at_source(pair, Op::Set(name(), b"a string".to_vec(), None)),
        |pair| {
            at_source(pair, Op::Del(name()));
            (0..CHUNKS).for_each(|n| at_source(pair, set(2 * n + 1, 3)));
        },
        |pair| at_source(pair, Op::Flush),
    ];
    for_protocols_that(is_ahead, |protocol| {
        for (replace, is_copied_first) in replacements.iter().flat_map(|way| [(way, false), (way, true)]) {
            let mut pair = match is_copied_first {
                true => copied_ahead(protocol),
                false => {
                    let mut pair = with_a_collection(slow(1, protocol));
                    pair.prepare();
                    pair.run_until("some is here", |pair| counters(pair).pieces > 3);
                    pair
                }
            };
            replace(&mut pair);
            pair.run_until_it_may_be_committed();
            pair.commit();
            pair.run_until_serving();
            pair.client(Op::Get(key(3)));
            pair.ends_well();
            pair.check_no_breach();
            pair.target.store.check_accounting().unwrap();
        }
    });
}

/// Behind the freeze the target's word is the last one, whatever was copied.
#[test]
fn what_is_written_at_the_target_wins_over_a_copy() {
    for_protocols_that(is_ahead, |protocol| {
        for op in [Op::Set(name(), b"newer".to_vec(), None), Op::Flush] {
            let mut pair = copied_ahead(protocol);
            pair.commit();
            pair.run_until_serving();
            pair.client(op);
            pair.ends_well();
            pair.check_no_breach();
            pair.target.store.check_accounting().unwrap();
        }
    });
}

/// A target without room for copies ahead goes on without them.
#[test]
fn no_memory_for_what_is_copied_ahead() {
    for_protocols_that(is_ahead, |protocol| {
        let mut pair = with_a_collection(Setup { target_bytes: 1 << 20, ..Setup::of(protocol) });
        for n in 2 * CHUNKS..10 * CHUNKS {
            pair.expect_ok(Op::Chunk(name(), n, Some(chunk(n))));
        }
        pair.prepare();
        pair.run_until_it_may_be_committed();
        assert_eq!(counters(&pair).collections_ahead, 0);
        pair.commit();
        pair.run_until("out of memory", |pair| pair.target_events.contains(&TargetEvent::Stalled));
        assert!(pair.import.as_ref().unwrap().activated(), "it serves");
    });
}

/// A command at the target needs a collection for which there is no memory: it fails, and the source serves
/// on.
#[test]
pub(crate) fn no_memory_for_what_a_command_needs() {
    let setup = Setup { target_bytes: 1 << 20, ..Setup::slow(HANDOFF) };
    let mut pair = with_a_collection(setup);
    for n in 2 * CHUNKS..10 * CHUNKS {
        pair.expect_ok(Op::Chunk(name(), n, Some(chunk(n))));
    }
    pair.net.faults.blocked = Some(Lane::Bulk);
    pair.begin();
    let at = HashedKey::new(&name()).position();
    let is_named = |pair: &mut Pair| pair.import.as_ref().is_some_and(|view| view.is_left_to_source(at));
    pair.run_until("it is named", is_named);
    for _ in 0..3 {
        assert_eq!(pair.at(End::Target, 0, set(1, 1)), Outcome::Parked);
        pair.pump();
        pair.run_until("it is answered", |pair| pair.parked() == 0);
        assert!(matches!(pair.woken.pop(), Some((_, Outcome::OutOfMemory))), "M34: there is no memory");
        assert!(!pair.import.as_ref().unwrap().has_arrived(at), "M34: the source keeps it");
        assert!(matches!(pair.at(End::Source, 0, set(1, 2)), Outcome::Answered(_)), "M34: it serves it");
    }
}

/// Links that are cut over and over, while it is copied and behind the freeze.
#[test]
fn cut_links_leave_what_is_in_hand() {
    for_protocols_that(is_ahead, |protocol| {
        for seed in 0..5 {
            let faults = Faults { bytes_per_us: 20, ..Faults::EVERYTHING };
            let mut pair = with_a_collection(Setup { seed, faults, ..Setup::of(protocol) });
            pair.begin();
            for n in 0..4_000 {
                if is_over(&pair) {
                    break;
                }
                if n % 40 == 7 {
                    let lane = if pair.rng.permille(500) { Lane::Bulk } else { Lane::Priority };
                    pair.net.cut(pair.now.0, lane, &mut pair.rng);
                }
                let end = if pair.parked() < 3 && pair.rng.permille(20) { End::Target } else { End::Source };
                let label = pair.rng.below(2 * CHUNKS);
                pair.at(end, 0, if n % 3 == 0 { remove(label) } else { set(label, n) });
                pair.pump();
                pair.step();
            }
            pair.ends_well();
            pair.target.store.check_accounting().unwrap();
        }
    });
}
