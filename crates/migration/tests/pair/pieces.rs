//! Records larger than a reply: they arrive in pieces, and count once whole.

use crate::model::Op;
use crate::net::{Arrival, End, Faults};
use crate::protocols::{
    by_cuts, copies_ahead, for_every_protocol, for_protocols_that, pulls_keys_ahead, samples,
    serves_while_it_fills,
};
use crate::records::TWINS;
use crate::world::{Outcome, Pair, Setup, key};
use sidle_migration::tuning::{PRIORITY_REPLY_BYTES, PULL_BYTES_MAX, STALL_US_MAX};
use sidle_migration::{Breach, ImporterCounters, ProtocolChoices, TargetEvent, TargetInput};
use sidle_store::Entry;
use sidle_types::{HashedKey, ProtocolVersion, Version, WallMs};
use sidle_wire::{
    FrameReader, HEADER_BYTES, Kind, Lane, Message, Piece, Pull, PullReplyStart, Scope, begin_frame,
    end_frame,
};

const PIECE_BYTES: u32 = 4_000;
/// More than any budget, and many pieces.
const LARGE_BYTES: usize = 300_000;
const SMALL: u64 = 200;

fn large() -> Op {
    Op::Set(b"large".to_vec(), vec![b'l'; LARGE_BYTES], None)
}

fn set(bytes: usize) -> Op {
    Op::Set(b"large".to_vec(), vec![b's'; bytes], None)
}

fn with_a_large_one(mut setup: Setup) -> Pair {
    setup.tuning.piece_bytes = PIECE_BYTES;
    let mut pair = Pair::with_records(setup, SMALL, 100);
    pair.expect_ok(large());
    pair
}

/// Some of the large record is here, and somebody serves.
fn in_the_middle(setup: Setup) -> Pair {
    let mut pair = with_a_large_one(setup);
    pair.begin();
    if serves_while_it_fills(&pair.spec.protocol) {
        pair.run_until_serving();
    }
    pair.run_until("a piece is here", |pair| pair.has_pieces());
    pair
}

fn slow(protocol: ProtocolChoices) -> Setup {
    Setup { faults: Faults { bytes_per_us: 10, ..Faults::NONE }, ..Setup::of(protocol) }
}

fn counters(pair: &Pair) -> ImporterCounters {
    pair.target_machine.as_ref().unwrap().counters()
}

fn ends_well(mut pair: Pair) {
    pair.ends_well();
    pair.check_no_breach();
    pair.check_all_answered();
    assert!(!pair.has_pieces(), "nothing is kept of what came in pieces");
}

/// Nothing waits behind more than its budget and a piece, whatever requests a large record.
#[test]
fn no_frame_is_much_larger_than_its_budget() {
    for_every_protocol(|protocol| {
        let mut pair = with_a_large_one(Setup::of(protocol));
        for n in 0..3 {
            pair.expect_ok(Op::Set(key(1_000 + n), vec![b'v'; LARGE_BYTES], None));
        }
        pair.net.record = Some(Vec::new());
        pair.begin();
        if copies_ahead(&protocol) {
            pair.run_until("caught up", |pair| pair.is_caught_up());
            pair.ask_at(End::Source, large());
        } else if serves_while_it_fills(&protocol) {
            pair.run_until_serving();
            pair.ask_at(End::Target, Op::Get(b"large".to_vec()));
            pair.ask_at(End::Target, Op::Get(key(1_001)));
        }
        pair.ends_well();
        let frames = pair.net.record.take().unwrap();
        let largest = |lane| {
            let to_target = frames.iter().filter(|frame| (frame.0, frame.1) == (End::Target, lane));
            to_target.map(|(_, _, frame)| frame.len()).max().unwrap()
        };
        let beyond = PIECE_BYTES as usize + 1_000;
        assert!(largest(Lane::Bulk) <= PULL_BYTES_MAX as usize + beyond, "{}", largest(Lane::Bulk));
        assert!(largest(Lane::Priority) <= PRIORITY_REPLY_BYTES + beyond, "{}", largest(Lane::Priority));
        assert!(counters(&pair).bytes_moved >= 4 * LARGE_BYTES as u64);
    });
}

/// An awaited key arrives between two pieces of another, not after them.
#[test]
fn nobody_waits_behind_all_of_a_large_record() {
    for_protocols_that(pulls_keys_ahead, |protocol| {
        let mut setup = slow(protocol);
        setup.tuning.max_bytes_per_s = Some(10_000);
        let mut pair = with_a_large_one(setup);
        pair.begin();
        pair.run_until_serving();
        pair.ask_at(End::Target, Op::Get(b"large".to_vec()));
        pair.run_until("a piece is here", |pair| pair.has_pieces());
        let wanted: Vec<Vec<u8>> = (0..SMALL).map(key).collect();
        let waiting: Vec<Op> = wanted.iter().map(|key| Op::Get(key.clone())).collect();
        let parked = waiting.iter().filter(|op| pair.ask_at(End::Target, (*op).clone()) == Outcome::Parked);
        assert!(parked.count() > 50, "most are to come");
        pair.run_until("the others are here", |pair| pair.parked() <= 1);
        assert_eq!(pair.parked(), 1, "and the large one is not");
        ends_well(pair);
    });
}

/// Several large keys are awaited: they arrive one after the other, each whole.
#[test]
fn several_large_keys_are_pulled_one_after_the_other() {
    for_protocols_that(pulls_keys_ahead, |protocol| {
        let mut setup = slow(protocol);
        setup.tuning.max_bytes_per_s = Some(10_000);
        setup.tuning.piece_bytes = PIECE_BYTES;
        let mut pair = Pair::new(setup);
        for n in 0..5 {
            pair.expect_ok(Op::Set(key(n), vec![n as u8; LARGE_BYTES / 10], None));
        }
        pair.begin();
        pair.run_until_serving();
        for n in (0..5).chain(0..5) {
            assert_eq!(pair.ask_at(End::Target, Op::Get(key(n))), Outcome::Parked);
        }
        pair.run_until("all are answered", |pair| pair.parked() == 0);
        assert_eq!(pair.woken.len(), 10);
        ends_well(pair);
    });
}

/// M10: a piece is lost with its connection, or arrives twice, without effect.
#[test]
fn pieces_are_lost_and_come_twice() {
    for_every_protocol(|protocol| {
        let mut pair = in_the_middle(slow(protocol));
        for _ in 0..3 {
            pair.net.cut(pair.now.0, Lane::Bulk, &mut pair.rng);
            let moved = counters(&pair).bytes_moved;
            pair.run_until("it goes on", |pair| counters(pair).bytes_moved > moved);
        }
        let again = counters(&pair).bytes_moved < 2 * LARGE_BYTES as u64;
        assert!(again && pair.has_pieces(), "in the middle still");
        pair.net.faults = Faults { duplicate_per_mille: 500, reorder: true, ..pair.net.faults };
        ends_well(pair);
    });
}

/// M5: the target's own writes win, and the rest is not needed.
#[test]
fn overwritten_in_the_middle() {
    for_protocols_that(serves_while_it_fills, |protocol| {
        for op in [set(10), Op::Del(b"large".to_vec())] {
            let mut pair = in_the_middle(slow(protocol));
            pair.ask_at(End::Target, op);
            pair.run_until("all is here", |pair| pair.target_events.contains(&TargetEvent::Finished));
            let is_blind = counters(&pair).priority_pulls == 0;
            let moved = counters(&pair).bytes_moved;
            assert!(!is_blind || moved < LARGE_BYTES as u64, "{moved} bytes: the rest came all the same");
            ends_well(pair);
        }
    });
}

/// M5, M7: one of two large keys of one position is the target's own, and the other arrives.
#[test]
fn one_of_two_overwritten_in_the_middle() {
    for_protocols_that(serves_while_it_fills, |protocol| {
        // Whichever of them comes first in the pieces.
        for twin in TWINS {
            for op in [Op::Set(twin.to_vec(), b"new".to_vec(), None), Op::Del(twin.to_vec())] {
                let mut setup = slow(protocol);
                setup.tuning.piece_bytes = PIECE_BYTES;
                let mut pair = Pair::new(setup);
                for twin in TWINS {
                    pair.expect_ok(Op::Set(twin.to_vec(), vec![b'l'; LARGE_BYTES / 4], None));
                }
                pair.begin();
                pair.run_until_serving();
                pair.run_until("a piece is here", |pair| pair.has_pieces());
                pair.ask_at(End::Target, op);
                ends_well(pair);
            }
        }
    });
}

/// FLUSHALL at the target: the pieces in hand are freed, and the record stays gone.
#[test]
fn flushed_in_the_middle() {
    for_protocols_that(serves_while_it_fills, |protocol| {
        let mut pair = in_the_middle(slow(protocol));
        pair.ask_at(End::Target, Op::Get(b"large".to_vec()));
        pair.ask_at(End::Target, Op::Flush);
        assert!(!pair.has_pieces());
        ends_well(pair);
    });
}

/// A deadline passes while its record arrives: it is replayed, and reads as absent.
#[test]
fn expired_in_the_middle() {
    for_every_protocol(|protocol| {
        let mut setup = slow(protocol);
        setup.tuning.piece_bytes = PIECE_BYTES;
        let mut pair = Pair::with_records(setup, SMALL, 100);
        let deadline = Some(WallMs(pair.wall.0 + 10));
        pair.expect_ok(Op::Set(b"large".to_vec(), vec![b'l'; LARGE_BYTES], deadline));
        pair.begin();
        pair.run_until("a piece is here", |pair| pair.has_pieces());
        pair.wall.0 += 20;
        pair.expire(End::Source, b"large");
        pair.expire(End::Target, b"large");
        ends_well(pair);
    });
}

/// M12: the record changes at the source between two pieces of the copy, or is deleted.
#[test]
fn changed_while_it_is_copied() {
    for_protocols_that(copies_ahead, |protocol| {
        let changes = [
            large(),
            set(LARGE_BYTES - 8),
            set(LARGE_BYTES / 2),
            set(10),
            Op::Append(b"large".to_vec(), b"+".to_vec()),
            Op::Del(b"large".to_vec()),
            Op::Flush,
        ];
        for is_of_a_round in [false, true] {
            for op in &changes {
                let mut pair = with_a_large_one(slow(protocol));
                pair.prepare();
                if is_of_a_round {
                    pair.run_until("caught up", |pair| pair.is_caught_up());
                    pair.ask_at(End::Source, large());
                }
                pair.run_until("a piece is here", |pair| pair.has_pieces());
                pair.ask_at(End::Source, op.clone());
                pair.run_until("caught up", |pair| pair.is_caught_up());
                pair.commit();
                ends_well(pair);
            }
        }
    });
}

/// However often the record changes, the rounds end, and the last one brings it.
#[test]
fn changed_for_ever_while_it_is_copied() {
    for_protocols_that(copies_ahead, |protocol| {
        let mut pair = with_a_large_one(slow(protocol));
        pair.prepare();
        let mut steps = 0;
        while !pair.is_caught_up() {
            steps += 1;
            let byte = steps as u8;
            pair.ask_at(End::Source, Op::Set(b"large".to_vec(), vec![byte; LARGE_BYTES], None));
            pair.step();
            assert!(steps < 100_000, "the rounds do not end");
        }
        pair.commit();
        ends_well(pair);
    });
}

/// There is no memory for the whole record, then there is.
#[test]
fn no_memory_for_the_whole_of_it() {
    for_protocols_that(serves_while_it_fills, |protocol| {
        let mut setup = Setup { target_bytes: 2 << 20, ..Setup::of(protocol) };
        setup.tuning.piece_bytes = 100_000;
        let mut pair = Pair::new(setup);
        for n in 0..4 {
            pair.expect_ok(Op::Set(key(n), vec![b'v'; 700_000], None));
        }
        pair.begin();
        pair.run_until("stalled", |pair| pair.target_events.contains(&TargetEvent::Stalled));
        pair.run_us(3_000_000);
        assert!(!pair.target_events.contains(&TargetEvent::Finished));
        let mut free_since = pair.now;
        while !pair.target_events.contains(&TargetEvent::Finished) {
            for n in 0..4 {
                let is_large = |record: sidle_store::Record<'_>| record.value().len() > 1_000;
                let is_here =
                    pair.target.store.pin().get(HashedKey::new(&key(n))).value().is_some_and(is_large);
                if is_here {
                    pair.ask_at(End::Target, Op::Set(key(n), b"small".to_vec(), None));
                    free_since = pair.now;
                }
            }
            let waits_us = pair.now.since(free_since);
            assert!(waits_us <= STALL_US_MAX + 200_000, "memory for one is free, and none has arrived");
            pair.run_us(100_000);
        }
        pair.ends_well();
        assert!(pair.target_events.contains(&TargetEvent::Resumed));
    });
}

/// M10: there is no memory for a round, and pieces of it come again while its pull is repeated.
#[test]
fn pieces_of_a_round_without_memory_come_twice() {
    for_protocols_that(copies_ahead, |protocol| {
        for seed in 0..10 {
            let mut setup = Setup { seed, target_bytes: 2 << 20, ..Setup::of(protocol) };
            setup.tuning.piece_bytes = 100_000;
            let mut pair = Pair::new(setup);
            pair.prepare();
            pair.run_until("caught up", |pair| pair.is_caught_up());
            // Twins are assembled, then copied: that takes their memory twice.
            for twin in TWINS {
                pair.ask_at(End::Source, Op::Set(twin.to_vec(), vec![b'l'; 700_000], None));
            }
            let to_target_us = (20, 50_000);
            pair.net.faults =
                Faults { duplicate_per_mille: 1_000, reorder: true, to_target_us, ..Faults::NONE };
            pair.run_until("stalled", |pair| pair.target_events.contains(&TargetEvent::Stalled));
            pair.run_us(1_000_000);
            pair.ask_at(End::Source, Op::Del(TWINS[0].to_vec()));
            pair.commit();
            ends_well(pair);
        }
    });
}

/// The pulls that have been recorded since the last time.
fn pulls(pair: &mut Pair) -> Vec<Pull> {
    let frames = std::mem::take(pair.net.record.as_mut().unwrap());
    let to_source = frames.into_iter().filter(|frame| frame.0 == End::Source);
    let pulls = to_source.filter_map(|(_, _, frame)| {
        let mut reader = FrameReader::new();
        reader.push(&frame);
        match reader.next_frame().unwrap().unwrap().message().unwrap() {
            Message::Pull(pull) => Some(pull),
            _ => None,
        }
    });
    pulls.collect()
}

fn is_breach(event: &TargetEvent) -> bool {
    matches!(event, TargetEvent::Close(Lane::Bulk, Breach::CorruptBatch(_)))
}

/// Input that no correct source sends closes the connection, takes no memory, and applies nothing.
#[test]
fn pieces_that_do_not_fit_are_a_breach() {
    for_every_protocol(|protocol| {
        for (version, total, offset) in [(0, 0, 1), (1, 0, 0), (0, 8, 0)] {
            let mut pair = with_a_large_one(slow(protocol));
            pair.net.record = Some(Vec::new());
            pair.begin();
            let mut found = None;
            pair.run_until("a piece is asked for", |pair| {
                found = pulls(pair).into_iter().find_map(|pull| pull.piece.map(|piece| (pull, piece)));
                found.is_some()
            });
            let (pull, piece) = found.unwrap();
            let version = Version(piece.version.0 + version);
            let lie = Piece { version, total: piece.total + total, offset: piece.offset + offset, ..piece };
            let mut out = Vec::new();
            let start = PullReplyStart::begin(&pull, &mut out);
            out.extend_from_slice(&[7; 100]);
            let next = pull.range.first().next().filter(|&next| pull.range.contains(next));
            start.finish(next, Some(lie), &mut out).unwrap();
            pair.arrive(Arrival::Message(Lane::Bulk, End::Target.side(), out));
            assert!(pair.target_events.iter().any(is_breach), "{lie:?} after {piece:?}");
            let key = HashedKey::new(b"large");
            assert!(matches!(pair.target.store.pin().get(key), Entry::Absent));
            pair.ends_well();
        }
    });
}

/// In which replies the large record came, in a migration without pieces that `moves` begins.
fn moved_whole(setup: Setup, moves: impl Fn(&mut Pair)) -> Vec<Kind> {
    let mut pair = with_a_large_one(Setup { version: ProtocolVersion::PREVIOUS, ..setup });
    pair.net.record = Some(Vec::new());
    moves(&mut pair);
    pair.ends_well();
    pair.check_no_breach();
    pair.check_all_answered();
    assert_eq!(counters(&pair).pieces, 0);
    let mut kinds = Vec::new();
    for (_, _, bytes) in pair.net.record.take().unwrap() {
        let mut reader = FrameReader::new();
        reader.push(&bytes);
        let frame = reader.next_frame().unwrap().unwrap();
        assert_eq!(frame.version, ProtocolVersion::PREVIOUS);
        kinds.extend(Some(frame.kind).filter(|_| frame.body.len() > LARGE_BYTES));
    }
    kinds
}

/// Whatever requests it: the copy, a round, a waiting command, a sampled miss.
#[test]
fn a_version_without_pieces_moves_what_is_large_whole() {
    for_protocols_that(
        |protocol| !by_cuts(protocol),
        |protocol| {
            let kinds = moved_whole(slow(protocol), Pair::begin);
            assert!(kinds.contains(&Kind::PullReply), "{kinds:?}");
        },
    );
    for_protocols_that(copies_ahead, |protocol| {
        let kinds = moved_whole(slow(protocol), |pair| {
            pair.prepare();
            pair.run_until("caught up", |pair| pair.is_caught_up());
            pair.ask_at(End::Source, large());
            pair.commit();
        });
        assert!(kinds.contains(&Kind::ChangedPullReply), "{kinds:?}");
    });
    let few = |protocol| {
        let mut setup = slow(protocol);
        setup.tuning.max_bytes_per_s = Some(10_000);
        setup
    };
    for_protocols_that(pulls_keys_ahead, |protocol| {
        let kinds = moved_whole(few(protocol), |pair| {
            pair.begin();
            pair.run_until_serving();
            pair.ask_at(End::Target, Op::Get(b"large".to_vec()));
        });
        assert!(kinds.contains(&Kind::PriorityPullReply), "{kinds:?}");
    });
    for_protocols_that(samples, |protocol| {
        let kinds = moved_whole(few(protocol), |pair| {
            pair.begin();
            pair.run_until_serving();
            pair.target_input(TargetInput::SampledMiss(HashedKey::new(b"large").position()));
            pair.pump();
        });
        assert!(kinds.contains(&Kind::SampPullReply), "{kinds:?}");
    });
}

/// A reply in a later version's form, in a frame of one without pieces.
#[test]
fn a_piece_in_a_version_without_pieces_is_a_breach() {
    for_protocols_that(
        |protocol| !by_cuts(protocol),
        |protocol| {
            let mut pair = with_a_large_one(Setup { version: ProtocolVersion::PREVIOUS, ..slow(protocol) });
            pair.net.record = Some(Vec::new());
            pair.begin();
            let mut asked = None;
            pair.run_until("something is asked for", |pair| {
                asked = pulls(pair).pop();
                asked.is_some()
            });
            let pull = asked.unwrap();
            let scope = Scope { version: ProtocolVersion::CURRENT, ..pull.scope };
            let position = pull.range.first();
            let piece = Some(Piece { position, version: Version(1), total: 1_000, offset: 0, patch: None });
            let mut later = Vec::new();
            let start = PullReplyStart::begin(&Pull { scope, ..pull }, &mut later);
            later.extend_from_slice(&[7; 100]);
            start
                .finish(position.next().filter(|&next| pull.range.contains(next)), piece, &mut later)
                .unwrap();
            let mut out = Vec::new();
            let start = begin_frame(&mut out, ProtocolVersion::PREVIOUS, Kind::PullReply);
            out.extend_from_slice(&later[HEADER_BYTES..]);
            end_frame(&mut out, start).unwrap();
            pair.arrive(Arrival::Message(Lane::Bulk, End::Target.side(), out));
            assert!(pair.target_events.iter().any(is_breach));
            pair.ends_well();
            assert_eq!(counters(&pair).pieces, 0);
        },
    );
}
