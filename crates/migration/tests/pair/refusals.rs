//! What is refused, and what comes twice or too late: M9 and M10 message by message.

use crate::model::Op;
use crate::net::{Arrival, End, Faults};
use crate::world::{Pair, Setup, key};
use sidle_migration::{Breach, ImportPhase, SourceEvent, TargetEvent};
use sidle_types::{HashedKey, NodeId, Position, PositionRange, TabletEpoch, Version};
use sidle_wire::{
    Activate, Frame, FrameReader, Hello, Lane, Message, Pull, PullReplyStart, RefusalCode, SampPull, Scope,
};

fn serving(records: u64) -> Pair {
    let mut pair = Pair::with_records(Setup::slow(), records, 100);
    pair.start();
    pair.run_until_serving();
    pair
}

/// Hands a frame in, and returns the code of the refusal it is answered with, if it is.
fn refusal(pair: &mut Pair, to: End, lane: Lane, frame: Vec<u8>) -> Option<RefusalCode> {
    pair.net.record = Some(Vec::new());
    pair.arrive(Arrival::Frame(to, lane, frame));
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
    Pull { scope, partition, sequence: 900, range, max_bytes: 1000 }.write(&mut out);
    out
}

/// A reply to the pull in flight of partition 0, with these bytes as its records.
fn reply_frame(pair: &Pair, scope: Scope, batch: &[u8], sequence: u64) -> Vec<u8> {
    let next = pair.import.as_ref().unwrap().progress().next().unwrap();
    let range = PositionRange::new(next.unwrap(), pair.spec.partitions[0].last()).unwrap();
    let mut out = Vec::new();
    let start = PullReplyStart::begin(&Pull { scope, partition: 0, sequence, range, max_bytes: 1 }, &mut out);
    out.extend_from_slice(batch);
    start.finish(None, &mut out).unwrap();
    out
}

#[test]
fn a_message_of_another_epoch_is_refused_and_not_applied() {
    let mut pair = serving(1_000);
    let scope = stale(pair.spec.scope());
    let range = pair.spec.partitions[0];
    let refused = refusal(&mut pair, End::Source, Lane::Bulk, pull_frame(scope, 0, range));
    assert_eq!(refused, Some(RefusalCode::StaleScope));
    let mut batch = Vec::new();
    pair.source.store.pack(HashedKey::new(&key(1)), &mut batch);
    let before = pair.import.as_ref().unwrap().progress().collect::<Vec<_>>();
    let frame = reply_frame(&pair, scope, &batch, 0);
    assert_eq!(refusal(&mut pair, End::Target, Lane::Bulk, frame), Some(RefusalCode::StaleScope));
    assert_eq!(pair.import.as_ref().unwrap().progress().collect::<Vec<_>>(), before);
    pair.run_to_end();
    pair.check_end();
}

/// M3, M9: an `Activate` of an earlier migration does not activate.
#[test]
fn a_stale_activate_does_not_activate() {
    let mut pair = Pair::with_records(Setup::default(), 100, 10);
    pair.prepare();
    pair.run_us(5_000);
    let mut out = Vec::new();
    Activate { scope: stale(pair.spec.scope()), highest_version: Version(1) }.write(&mut out);
    pair.arrive(Arrival::Frame(End::Target, Lane::Priority, out));
    assert_eq!(pair.import.as_ref().unwrap().phase(), ImportPhase::Waiting);
}

/// M2: nothing leaves a range that is not frozen.
#[test]
fn a_pull_before_the_freeze_is_refused() {
    let mut pair = Pair::with_records(Setup::default(), 100, 10);
    pair.start();
    let (scope, range) = (pair.spec.scope(), pair.spec.partitions[0]);
    let mut hello = Vec::new();
    Hello { scope, node: pair.spec.target, lane: Lane::Bulk }.write(&mut hello);
    assert_eq!(refusal(&mut pair, End::Source, Lane::Bulk, hello), None);
    let refused = refusal(&mut pair, End::Source, Lane::Bulk, pull_frame(scope, 0, range));
    assert_eq!(refused, Some(RefusalCode::NotFrozen));
}

/// M8: once over, the answer is "done", never an empty reply.
#[test]
fn a_pull_after_done_is_refused() {
    let mut pair = serving(100);
    pair.run_to_end();
    let (scope, range) = (pair.spec.scope(), pair.spec.partitions[0]);
    let refused = refusal(&mut pair, End::Source, Lane::Bulk, pull_frame(scope, 0, range));
    assert_eq!(refused, Some(RefusalCode::Done));
}

#[test]
fn a_hello_of_a_node_that_has_no_part_in_it_is_refused() {
    let mut pair = serving(100);
    let mut out = Vec::new();
    let node = NodeId::from_bytes([9; 20]);
    Hello { scope: pair.spec.scope(), node, lane: Lane::Bulk }.write(&mut out);
    assert_eq!(refusal(&mut pair, End::Source, Lane::Bulk, out), Some(RefusalCode::WrongNode));
}

#[test]
fn requests_outside_the_range_are_refused() {
    let range = PositionRange::new(Position(1 << 60), Position(1 << 61)).unwrap();
    let mut pair = Pair::with_records(Setup { range, ..Setup::slow() }, 2_000, 100);
    pair.start();
    pair.run_until_serving();
    let scope = pair.spec.scope();
    let first = pair.spec.partitions[0];
    let beyond = PositionRange::new(first.first(), range.last()).unwrap();
    for (partition, range) in [(0, PositionRange::ALL), (0, beyond), (200, first)] {
        let refused = refusal(&mut pair, End::Source, Lane::Bulk, pull_frame(scope, partition, range));
        assert_eq!(refused, Some(RefusalCode::OutOfRange), "{partition} {range}");
    }
    let mut out = Vec::new();
    SampPull::write(scope, 900, &[Position(5)], &mut out);
    assert_eq!(refusal(&mut pair, End::Source, Lane::Priority, out), Some(RefusalCode::OutOfRange));
}

/// A batch that does not hold together is dropped whole, the connection closed and opened again, and nothing is lost.
#[test]
fn a_corrupt_batch_closes_the_connection_and_applies_nothing() {
    let mut pair = serving(3_000);
    let mut batch = Vec::new();
    pair.source.store.pack(HashedKey::new(&key(1)), &mut batch);
    let last = batch.len() - 1;
    batch[last] ^= 1;
    let scope = pair.spec.scope();
    let before = pair.target.store.len();
    for sequence in 0..20 {
        let frame = reply_frame(&pair, scope, &batch, sequence);
        pair.arrive(Arrival::Frame(End::Target, Lane::Bulk, frame));
    }
    assert_eq!(pair.target.store.len(), before);
    let closed =
        |event: &TargetEvent| matches!(event, TargetEvent::Close(Lane::Bulk, Breach::CorruptBatch(_)));
    assert!(pair.target_events.iter().any(closed));
    pair.run_to_end();
    pair.check_end();
}

/// A record from outside what was pulled is as bad as a corrupt one.
#[test]
fn a_record_outside_the_pulled_positions_is_not_applied() {
    let mut pair = serving(3_000);
    let outside = (0..3_000).map(key).find(|key| {
        !pair.spec.partitions[0].contains(HashedKey::new(key).position())
            && !pair.is_settled(HashedKey::new(key))
    });
    let outside = outside.unwrap();
    let mut batch = Vec::new();
    pair.source.store.pack(HashedKey::new(&outside), &mut batch);
    let scope = pair.spec.scope();
    for sequence in 0..20 {
        let frame = reply_frame(&pair, scope, &batch, sequence);
        pair.arrive(Arrival::Frame(End::Target, Lane::Bulk, frame));
    }
    assert!(!pair.is_settled(HashedKey::new(&outside)));
    pair.run_to_end();
    pair.check_end();
}

#[test]
fn messages_for_the_other_end_close_the_connection() {
    let mut pair = serving(100);
    let scope = pair.spec.scope();
    let mut out = Vec::new();
    scope.write_hello_ack(&mut out);
    pair.arrive(Arrival::Frame(End::Source, Lane::Bulk, out));
    let closed = SourceEvent::Close(Lane::Bulk, Breach::WrongDirection("HelloAck"));
    assert!(pair.source_events.contains(&closed));
    let mut out = Vec::new();
    scope.write_activated(&mut out);
    pair.arrive(Arrival::Frame(End::Target, Lane::Priority, out));
    let closed = TargetEvent::Close(Lane::Priority, Breach::WrongDirection("Activated"));
    assert!(pair.target_events.contains(&closed));
    pair.run_to_end();
    pair.check_end();
}

/// M10 at its worst: everything that was ever sent arrives again, backwards, in the middle and after the end.
#[test]
fn every_frame_again_in_reverse_order() {
    for seed in 0..20 {
        let faults = Faults { linger_per_mille: 1000, ..Faults::EVERYTHING };
        let mut pair = Pair::with_records(Setup { seed, faults, ..Setup::slow() }, 1_000, 100);
        pair.net.record = Some(Vec::new());
        pair.start();
        pair.run_until_serving();
        for n in 0..300 {
            let op = match n % 3 {
                0 => Op::Del(key(n)),
                1 => Op::Set(key(n), b"new".to_vec(), None),
                _ => Op::Append(key(n), b"!".to_vec()),
            };
            pair.ask_at(End::Target, op);
            pair.read_at_target(&key(n + 300));
            pair.step();
        }
        let again = |pair: &mut Pair| {
            let frames = pair.net.record.clone().unwrap();
            for (to, lane, frame) in frames.into_iter().rev() {
                pair.arrive(Arrival::Frame(to, lane, frame));
            }
        };
        again(&mut pair);
        pair.run_until("finished", |pair| pair.target_events.contains(&TargetEvent::Finished));
        again(&mut pair);
        pair.run_to_end();
        pair.check_end();
        again(&mut pair);
        pair.run_us(1_000_000);
        pair.check_end();
        pair.check_no_breach();
    }
}
