//! Hot positions, which are given first.

use crate::cuts::{in_small_steps, with_few_out_of_turn};
use crate::faults::{drop_ballast, fill, half};
use crate::model::{Bytes, Op};
use crate::net::{Arrival, End};
use crate::world::{Outcome, Pair, Setup, WORKERS, key};
use sidle_migration::{Breach, ExportPhase, ProtocolChoices, TargetEvent};
use sidle_types::{HashedKey, Position, PositionRange};
use sidle_wire::{Frame, FrameReader, HotHints, Lane, Message};

const RECORDS: u64 = 4_000;

/// These keys are far from what is copied soon.
fn late_keys(pair: &Pair, number: usize) -> Vec<Bytes> {
    let last = |bounds: &PositionRange| {
        let eighth = (bounds.last().0 - bounds.first().0) / 8;
        PositionRange::new(Position(bounds.last().0 - eighth), bounds.last()).unwrap()
    };
    let ends: Vec<_> = pair.spec.partitions.iter().map(last).collect();
    let is_late = |key: &Bytes| ends.iter().any(|end| end.contains(HashedKey::new(key).position()));
    (0..RECORDS).map(key).filter(is_late).take(number).collect()
}

pub(crate) fn positions(keys: &[Bytes]) -> Vec<Position> {
    keys.iter().map(|key| HashedKey::new(key).position()).collect()
}

fn owned(pair: &Pair, keys: &[Bytes]) -> usize {
    keys.iter().filter(|key| pair.is_settled(HashedKey::new(key))).count()
}

fn copied_part(pair: &Pair) -> f64 {
    let bounds = pair.spec.partitions.iter().zip(pair.import.as_ref().unwrap().progress());
    let part = bounds.map(|(bounds, next)| {
        let width = (bounds.last().0 - bounds.first().0) as f64;
        next.map_or(1.0, |next| (next.0 - bounds.first().0) as f64 / width)
    });
    part.sum::<f64>() / pair.spec.partitions.len() as f64
}

fn hints(pair: &Pair, positions: &[Position]) -> Vec<u8> {
    let mut out = Vec::new();
    HotHints::write(pair.spec.scope(), positions, &[], &mut out);
    out
}

fn hinted(pair: &Pair) -> u64 {
    pair.target_machine.as_ref().unwrap().counters().hinted
}

/// The keys that the target owns of forty that clients of the source read and write.
fn given_of_accessed(protocol: ProtocolChoices) -> usize {
    let mut pair = Pair::with_records(Setup::slow(protocol), RECORDS, 100);
    pair.begin_to_the_middle();
    let hot = late_keys(&pair, 40);
    for (n, key) in (0..4).flat_map(|_| hot.iter().enumerate()) {
        let op = if n % 2 == 0 { Op::Get(key.clone()) } else { Op::Append(key.clone(), b"+".to_vec()) };
        pair.at(End::Source, n % WORKERS, op);
        pair.pump();
    }
    pair.run_us(15_000);
    let (owned, copied) = (owned(&pair, &hot), copied_part(&pair));
    assert!(copied < 0.2, "{copied} of the range is given");
    pair.ends_well();
    owned
}

#[test]
fn what_clients_access_is_given_before_its_turn() {
    assert_eq!(given_of_accessed(in_small_steps()), 40);
    assert_eq!(given_of_accessed(ProtocolChoices { hot_first: false, ..in_small_steps() }), 0);
}

#[test]
fn what_was_hot_before_the_migration_is_given_with_its_first_cuts() {
    let mut pair = Pair::with_records(Setup::slow(in_small_steps()), RECORDS, 100);
    pair.spec.partitions = pair.source.store.partition(pair.spec.range, pair.spec.protocol.partitions);
    let hot = late_keys(&pair, 20);
    pair.hot = positions(&hot);
    pair.begin();
    let is_exported = |pair: &mut Pair| pair.export.as_ref().unwrap().phase() == ExportPhase::Tracking;
    pair.run_until("it is exported", is_exported);
    let began = pair.now.0;
    pair.run_until("they are given", |pair| owned(pair, &hot) == 20);
    // Five cuts of four positions; each takes a turn of the workers.
    assert!(pair.now.0 - began < 5 * 1_000, "{} us", pair.now.0 - began);
    for key in hot {
        assert!(matches!(pair.at(End::Target, 0, Op::Append(key, b"!".to_vec())), Outcome::Answered(_)));
    }
    pair.ends_well();
}

/// M26: they are lost, doubled and outdated.
#[test]
fn hints_change_nothing_but_the_order() {
    let mut pair = Pair::in_the_middle(Setup::slow(in_small_steps()), RECORDS, 100);
    let hot = positions(&late_keys(&pair, 3));
    let frame = hints(&pair, &[hot.clone(), hot.clone()].concat());
    for _ in 0..3 {
        pair.arrive(Arrival::Message(Lane::Priority, End::Target.side(), frame.clone()));
    }
    pair.run_until("they are given", |pair| hinted(pair) > 0);
    pair.arrive(Arrival::Message(Lane::Priority, End::Target.side(), frame.clone()));
    pair.run_us(5_000);
    assert_eq!(hinted(&pair), 3);
    pair.ends_well();
    pair.arrive(Arrival::Message(Lane::Priority, End::Target.side(), frame));
    assert_eq!(hinted(&pair), 3);
}

#[test]
fn hints_outside_the_range_close_the_lane_and_none_of_them_counts() {
    let range = PositionRange::new(Position(0), Position(u64::MAX / 2)).unwrap();
    let mut pair = Pair::with_records(Setup { range, ..Setup::slow(in_small_steps()) }, RECORDS, 100);
    pair.begin_to_the_middle();
    let hot = positions(&late_keys(&pair, 1))[0];
    let frame = hints(&pair, &[hot, Position(u64::MAX)]);
    pair.arrive(Arrival::Message(Lane::Priority, End::Target.side(), frame));
    let is_close =
        |event: &TargetEvent| matches!(event, TargetEvent::Close(Lane::Priority, Breach::CorruptBatch(_)));
    assert!(pair.target_events.iter().any(is_close), "{:?}", pair.target_events);
    pair.run_us(5_000);
    assert_eq!(hinted(&pair), 0);
    pair.ends_well();
}

/// Half of the room out of turn is for what commands wait for.
#[test]
fn hints_leave_room_for_commands() {
    let mut pair = Pair::in_the_middle(Setup::slow(with_few_out_of_turn(10)), RECORDS, 100);
    let late = late_keys(&pair, 10);
    let frame = hints(&pair, &positions(&late[..9]));
    pair.arrive(Arrival::Message(Lane::Priority, End::Target.side(), frame));
    pair.run_us(5_000);
    assert_eq!(hinted(&pair), 4, "a cut of four, and no other");
    pair.client(Op::Get(late[9].clone()));
    pair.run_until("answered", |pair| pair.parked() == 0);
    assert_eq!(owned(&pair, &late), 5);
    assert!(!pair.target_events.iter().any(|event| matches!(event, TargetEvent::GaveAll(_))));
    pair.ends_well();
}

fn short_of_memory() -> (Pair, Vec<Bytes>) {
    let setup = Setup {
        range: half(),
        source_bytes: 32 << 20,
        target_bytes: 16 << 20,
        ..Setup::slow(in_small_steps())
    };
    let mut pair = Pair::with_records(setup, RECORDS, 100);
    pair.begin_to_the_middle();
    let hot = late_keys(&pair, 3);
    (pair, hot)
}

/// In transit they would be nobody's until there is memory.
fn the_source_keeps(pair: &mut Pair, hot: &[Bytes]) {
    assert_eq!((hinted(pair), owned(pair, hot)), (0, 0));
    for key in hot {
        assert!(matches!(pair.at(End::Source, 0, Op::Get(key.clone())), Outcome::Answered(_)));
    }
}

fn waiting_hints(pair: &Pair) -> usize {
    let mut queues = pair.target_machine.as_ref().unwrap().queues();
    queues.find(|queue| queue.what == "hot positions to be taken").unwrap().count
}

#[test]
fn while_copies_stall_hints_wait() {
    let (mut pair, hot) = short_of_memory();
    let mut keys: Vec<_> = (0..RECORDS).map(key).collect();
    keys.sort_by_key(|key| HashedKey::new(key).position());
    for bounds in pair.spec.partitions.clone().iter() {
        let mut within = keys.iter().filter(|key| bounds.contains(HashedKey::new(key).position()));
        let large = within.nth(300).unwrap().clone();
        pair.at(End::Source, 0, Op::Set(large, vec![b'x'; 3 << 20], None));
    }
    let ballast = fill(&mut pair, "ballast:", 5 << 19);
    pair.run_us(5_000_000);
    pair.run_until("it stalls", |pair| pair.target_machine.as_ref().unwrap().is_stalled());
    assert!(pair.target.store.has_room(16 << 10), "there is room for hints");
    let frame = hints(&pair, &positions(&hot));
    pair.arrive(Arrival::Message(Lane::Priority, End::Target.side(), frame));
    pair.run_us(3_000_000);
    the_source_keeps(&mut pair, &hot);
    ballast.iter().for_each(|name| drop_ballast(&mut pair, name));
    pair.ends_well();
}

#[test]
fn without_memory_for_them_hints_are_dropped() {
    let (mut pair, hot) = short_of_memory();
    pair.net.faults.blocked = Some(Lane::Bulk);
    pair.run_us(20_000);
    let ballast = fill(&mut pair, "ballast:", 0);
    let frame = hints(&pair, &positions(&hot));
    pair.arrive(Arrival::Message(Lane::Priority, End::Target.side(), frame));
    pair.run_us(100_000);
    assert!(!pair.target_machine.as_ref().unwrap().is_stalled());
    the_source_keeps(&mut pair, &hot);
    assert_eq!(waiting_hints(&pair), 0);
    pair.net.faults.blocked = None;
    ballast.iter().for_each(|name| drop_ballast(&mut pair, name));
    pair.ends_well();
}

/// Nobody serves what is in transit: large records wait for their turn.
#[test]
fn large_records_are_not_hinted() {
    let mut setup = Setup::slow(in_small_steps());
    setup.tuning.piece_bytes = 2_000;
    let mut pair = Pair::with_records(setup, RECORDS, 100);
    pair.spec.partitions = pair.source.store.partition(pair.spec.range, 3);
    let hot = late_keys(&pair, 8);
    pair.expect_ok(Op::Set(hot[0].clone(), vec![b'x'; 3_000], None));
    pair.net.record = Some(Vec::new());
    pair.hot = positions(&hot);
    pair.begin();
    pair.run_until("the others are given", |pair| owned(pair, &hot) == 7);
    let frames = pair.net.record.take().unwrap();
    let named = frames.iter().flat_map(|(.., bytes)| {
        let mut reader = FrameReader::new();
        reader.push(bytes);
        match reader.next_frame().unwrap().map(Frame::message).unwrap().unwrap() {
            Message::HotHints(hints) => hints.positions.iter().collect::<Vec<_>>(),
            _ => Vec::new(),
        }
    });
    assert_eq!(named.collect::<Vec<_>>(), positions(&hot[1..]));
    pair.ends_well();
}

#[test]
fn what_a_command_waits_for_comes_before_hints() {
    let mut pair = Pair::in_the_middle(Setup::slow(in_small_steps()), RECORDS, 100);
    let late = late_keys(&pair, 41);
    let frame = hints(&pair, &positions(&late[1..]));
    pair.arrive(Arrival::Message(Lane::Priority, End::Target.side(), frame));
    assert_eq!(pair.at(End::Target, 0, Op::Get(late[0].clone())), Outcome::Parked);
    pair.pump();
    pair.run_until("it is taken", |pair| pair.parked() == 0);
    // The cut that was under way, and the next one.
    assert!(hinted(&pair) <= 7, "{} hot positions went first", hinted(&pair));
    pair.run_until("the others follow", |pair| hinted(pair) == 40);
    pair.ends_well();
}
