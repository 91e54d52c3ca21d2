//! Refused, repeated and outdated messages: M9 and M10 message by message.

use crate::model::Op;
use crate::net::{Arrival, End, Faults};
use crate::protocols::{copies_ahead, for_every_protocol};
use crate::world::{Pair, Setup, key};
use sidle_migration::{Breach, ExportPhase, ProtocolChoices, SourceEvent, TargetEvent};
use sidle_store::Entry;
use sidle_types::{HashedKey, NodeId, Position, PositionRange, TabletEpoch, Version};
use sidle_wire::{
    Activate, ChangedPull, Frame, FrameReader, Hello, Lane, Message, Piece, Pull, PullReplyStart,
    RefusalCode, SampPull, Scope,
};

fn middle(protocol: ProtocolChoices, records: u64) -> Pair {
    Pair::in_the_middle(Setup::slow(protocol), records, 100)
}

/// Replies take so long that some are always under way.
const SLOW_WAY: Faults = Faults { to_target_us: (20_000, 80_000), ..Faults::NONE };

/// Passes in a frame, and returns the code of the refusal in answer, if any.
fn refusal(pair: &mut Pair, to: End, lane: Lane, frame: Vec<u8>) -> Option<RefusalCode> {
    pair.net.record = Some(Vec::new());
    pair.arrive(Arrival::Message(lane, to.side(), frame));
    let sent = pair.net.record.take().unwrap();
    sent.iter().filter(|(receiver, ..)| *receiver == to.other()).find_map(|(.., bytes)| {
        let mut reader = FrameReader::new();
        reader.push(bytes);
        match reader.next_frame().unwrap().map(Frame::message).unwrap().unwrap() {
            Message::Refuse(refusal) => Some(refusal.code),
            _ => None,
        }
    })
}

fn stale(scope: Scope) -> Scope {
    Scope { epoch: TabletEpoch(scope.epoch.0 - 1), ..scope }
}

fn pull_frame(scope: Scope, partition: u8, range: PositionRange) -> Vec<u8> {
    let mut out = Vec::new();
    Pull { scope, partition, sequence: 900, range, max_bytes: 1000, piece: None }.write(&mut out);
    out
}

/// Replies to the pulls in flight, of the chosen partitions, with these bytes as their records.
fn reply_frames(pair: &Pair, scope: Scope, batch: &[u8], of: impl Fn(PositionRange) -> bool) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let progress = pair.import.as_ref().unwrap().progress().zip(&pair.spec.partitions);
    for (partition, (next, whole)) in progress.enumerate().filter(|(_, (_, whole))| of(**whole)) {
        let Some(range) = next.map(|next| PositionRange::new(next, whole.last()).unwrap()) else { continue };
        for sequence in 0..20 {
            let mut out = Vec::new();
            let pull = Pull { scope, partition: partition as u8, sequence, range, max_bytes: 1, piece: None };
            let start = PullReplyStart::begin(&pull, &mut out);
            out.extend_from_slice(batch);
            start.finish(None, None, &mut out).unwrap();
            frames.push(out);
        }
    }
    frames
}

fn is_closed_for_corruption(pair: &Pair) -> bool {
    let closed =
        |event: &TargetEvent| matches!(event, TargetEvent::Close(Lane::Bulk, Breach::CorruptBatch(_)));
    pair.target_events.iter().any(closed)
}

#[test]
fn a_message_of_another_epoch_is_refused_and_not_applied() {
    for_every_protocol(|protocol| {
        let mut pair = middle(protocol, 1_000);
        let scope = stale(pair.spec.scope());
        let range = pair.spec.partitions[0];
        let refused = refusal(&mut pair, End::Source, Lane::Bulk, pull_frame(scope, 0, range));
        assert_eq!(refused, Some(RefusalCode::StaleScope));
        let mut batch = Vec::new();
        pair.source.store.pack(HashedKey::new(&key(1)), &mut batch);
        let before = pair.import.as_ref().unwrap().progress().collect::<Vec<_>>();
        for frame in reply_frames(&pair, scope, &batch, |_| true) {
            assert_eq!(refusal(&mut pair, End::Target, Lane::Bulk, frame), Some(RefusalCode::StaleScope));
        }
        assert_eq!(pair.import.as_ref().unwrap().progress().collect::<Vec<_>>(), before);
        pair.ends_well();
    });
}

/// M3, M9: an `Activate` of an earlier migration does not activate.
#[test]
fn a_stale_activate_does_not_activate() {
    for_every_protocol(|protocol| {
        let mut pair = Pair::with_records(Setup::of(protocol), 100, 10);
        pair.prepare();
        pair.run_us(5_000);
        let mut out = Vec::new();
        Activate::write(stale(pair.spec.scope()), Version(1), 1, &[], &[], &mut out).unwrap();
        pair.arrive(Arrival::Message(Lane::Priority, End::Target.side(), out));
        assert!(!pair.import.as_ref().unwrap().source_is_frozen());
    });
}

/// M2, M11: no record leaves a range that is not frozen, or whose workers do not all mark their changes.
#[test]
fn a_pull_before_the_barrier_is_refused() {
    for_every_protocol(|protocol| {
        let mut pair = Pair::with_records(Setup::of(protocol), 100, 10);
        pair.begin();
        assert_eq!(pair.export.as_ref().unwrap().phase(), ExportPhase::Pending);
        let (scope, range) = (pair.spec.scope(), pair.spec.partitions[0]);
        let mut hello = Vec::new();
        Hello { scope, node: pair.spec.target, lane: Lane::Bulk }.write(&mut hello);
        assert_eq!(refusal(&mut pair, End::Source, Lane::Bulk, hello), None);
        let refused = refusal(&mut pair, End::Source, Lane::Bulk, pull_frame(scope, 0, range));
        assert_eq!(refused, Some(RefusalCode::NotFrozen));
    });
}

/// M8: after the end, the answer is "done", never an empty reply.
#[test]
fn a_pull_after_done_is_refused() {
    for_every_protocol(|protocol| {
        let mut pair = middle(protocol, 100);
        pair.run_to_end();
        let (scope, range) = (pair.spec.scope(), pair.spec.partitions[0]);
        let refused = refusal(&mut pair, End::Source, Lane::Bulk, pull_frame(scope, 0, range));
        assert_eq!(refused, Some(RefusalCode::Done));
    });
}

#[test]
fn a_hello_of_a_node_that_has_no_part_in_it_is_refused() {
    for_every_protocol(|protocol| {
        let mut pair = middle(protocol, 100);
        let mut out = Vec::new();
        let node = NodeId::from_bytes([9; 20]);
        Hello { scope: pair.spec.scope(), node, lane: Lane::Bulk }.write(&mut out);
        assert_eq!(refusal(&mut pair, End::Source, Lane::Bulk, out), Some(RefusalCode::WrongNode));
    });
}

#[test]
fn requests_outside_the_range_are_refused() {
    for_every_protocol(|protocol| {
        let range = PositionRange::new(Position(1 << 60), Position(1 << 61)).unwrap();
        let mut pair = Pair::in_the_middle(Setup { range, ..Setup::slow(protocol) }, 2_000, 100);
        let scope = pair.spec.scope();
        let first = pair.spec.partitions[0];
        let beyond = PositionRange::new(first.first(), first.last().next().unwrap()).unwrap();
        for (partition, range) in [(0, PositionRange::ALL), (0, beyond), (200, first)] {
            let refused = refusal(&mut pair, End::Source, Lane::Bulk, pull_frame(scope, partition, range));
            assert_eq!(refused, Some(RefusalCode::OutOfRange), "{partition} {range}");
        }
        let mut out = Vec::new();
        SampPull::write(scope, 900, &[Position(5)], &mut out);
        // Before the freeze it is only copied, and no command waits for single records.
        let code = if copies_ahead(&protocol) { RefusalCode::NotFrozen } else { RefusalCode::OutOfRange };
        assert_eq!(refusal(&mut pair, End::Source, Lane::Priority, out), Some(code));
        for (position, code) in [(range.first(), None), (Position(5), Some(RefusalCode::OutOfRange))] {
            let piece = Some(Piece { position, version: Version(1), total: 1_000, offset: 500, patch: None });
            let mut out = Vec::new();
            ChangedPull { scope, sequence: 900, max_bytes: 1_000, piece }.write(&mut out);
            let answers = copies_ahead(&protocol) || protocol.copies_collections_ahead();
            // A target may ask so that has yet to learn of its source's restart: it is not to give up.
            let code = if answers { code } else { None };
            assert_eq!(refusal(&mut pair, End::Source, Lane::Bulk, out), code, "{position}");
        }
    });
}

/// An inconsistent batch is dropped whole, the connection closed and reopened, and nothing is lost.
#[test]
fn a_corrupt_batch_closes_the_connection_and_applies_nothing() {
    for_every_protocol(|protocol| {
        let setup = Setup { faults: SLOW_WAY, ..Setup::of(protocol) };
        let mut pair = Pair::in_the_middle(setup, 10_000, 100);
        let mut batch = Vec::new();
        pair.source.store.pack(HashedKey::new(&key(1)), &mut batch);
        let last = batch.len() - 1;
        batch[last] ^= 1;
        let scope = pair.spec.scope();
        let before = pair.target.store.len();
        for frame in reply_frames(&pair, scope, &batch, |_| true) {
            pair.arrive(Arrival::Message(Lane::Bulk, End::Target.side(), frame));
        }
        assert_eq!(pair.target.store.len(), before);
        assert!(is_closed_for_corruption(&pair));
        pair.ends_well();
    });
}

/// A record from outside the pull, of another partition or another range, is treated as a corrupt one.
#[test]
fn a_record_outside_the_pulled_positions_is_not_applied() {
    for_every_protocol(|protocol| {
        let half = PositionRange::new(Position::FIRST, Position(u64::MAX / 2)).unwrap();
        for is_of_the_range in [true, false] {
            let setup = Setup { range: half, faults: SLOW_WAY, ..Setup::of(protocol) };
            let mut pair = Pair::in_the_middle(setup, 20_000, 100);
            let is_outside = |name: &Vec<u8>| {
                let key = HashedKey::new(name);
                half.contains(key.position()) == is_of_the_range
                    && matches!(pair.target.store.pin().get(key), Entry::Absent)
            };
            let outside = (0..20_000).map(key).find(is_outside).unwrap();
            let outside = HashedKey::new(&outside);
            let mut batch = Vec::new();
            pair.source.store.pack(outside, &mut batch);
            let of = |partition: PositionRange| !partition.contains(outside.position());
            let frames = reply_frames(&pair, pair.spec.scope(), &batch, of);
            let is_pulled_elsewhere = !frames.is_empty();
            assert!(is_pulled_elsewhere || is_of_the_range && pair.spec.partitions.len() == 1);
            for frame in frames {
                pair.arrive(Arrival::Message(Lane::Bulk, End::Target.side(), frame));
            }
            assert!(matches!(pair.target.store.pin().get(outside), Entry::Absent));
            assert_eq!(is_closed_for_corruption(&pair), is_pulled_elsewhere);
            pair.ends_well();
        }
    });
}

#[test]
fn messages_for_the_other_end_close_the_connection() {
    for_every_protocol(|protocol| {
        let mut pair = middle(protocol, 100);
        let scope = pair.spec.scope();
        let mut out = Vec::new();
        scope.write_hello_ack(&mut out);
        pair.arrive(Arrival::Message(Lane::Bulk, End::Source.side(), out));
        let closed = SourceEvent::Close(Lane::Bulk, Breach::WrongDirection("HelloAck"));
        assert!(pair.source_events.contains(&closed));
        let mut out = Vec::new();
        scope.write_activated(&mut out);
        pair.arrive(Arrival::Message(Lane::Priority, End::Target.side(), out));
        let closed = TargetEvent::Close(Lane::Priority, Breach::WrongDirection("Activated"));
        assert!(pair.target_events.contains(&closed));
        pair.ends_well();
    });
}

/// M10 at its worst: every frame ever sent arrives again, in reverse order, in the middle and after the end.
#[test]
fn every_frame_again_in_reverse_order() {
    for_every_protocol(|protocol| {
        for seed in 0..20 {
            let faults = Faults { linger_per_mille: 1000, ..Faults::EVERYTHING };
            let mut pair = Pair::with_records(Setup { seed, faults, ..Setup::slow(protocol) }, 1_000, 100);
            pair.net.record = Some(Vec::new());
            pair.begin_to_the_middle();
            for n in 0..300 {
                let op = match n % 3 {
                    0 => Op::Del(key(n)),
                    1 => Op::Set(key(n), b"new".to_vec(), None),
                    _ => Op::Append(key(n), b"!".to_vec()),
                };
                pair.client(op);
                pair.read_at_target(&key(n + 300));
                pair.step();
            }
            let again = |pair: &mut Pair| {
                let frames = pair.net.record.clone().unwrap();
                for (to, lane, frame) in frames.into_iter().rev() {
                    pair.arrive(Arrival::Message(lane, to.side(), frame));
                }
            };
            again(&mut pair);
            pair.run_until("finished", |pair| pair.target_events.contains(&TargetEvent::Finished));
            again(&mut pair);
            pair.ends_well();
            again(&mut pair);
            pair.run_us(1_000_000);
            pair.check_end();
            pair.check_no_breach();
        }
    });
}
