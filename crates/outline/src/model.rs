//! A sequence compared with a map.

use crate::chunk::{Chunk, Place};
use crate::sequence::{At, Sequence};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Labels are few, so that many are put again and removed.
const LABELS: u64 = 3000;

#[derive(Clone, Debug)]
enum Operation {
    Put(u64, u32, u32),
    Remove(u64),
    /// As many in a row, as a list grows and shrinks.
    PutRow(u64, u16),
    RemoveRow(u64, u16),
    Publish,
    Move(u64),
    Clone,
}

fn operation() -> impl Strategy<Value = Operation> {
    let label = 0..LABELS;
    prop_oneof![
        8 => (label.clone(), 1..5u32, 0..9u32).prop_map(|(label, n, bytes)| Operation::Put(label, n, bytes)),
        8 => label.clone().prop_map(Operation::Remove),
        2 => (label.clone(), 0..600u16).prop_map(|(label, n)| Operation::PutRow(label, n)),
        2 => (label.clone(), 0..600u16).prop_map(|(label, n)| Operation::RemoveRow(label, n)),
        1 => Just(Operation::Publish),
        4 => label.prop_map(Operation::Move),
        1 => Just(Operation::Clone),
    ]
}

type Model = BTreeMap<u64, Chunk>;

fn put(sequence: &mut Sequence, model: &mut Model, label: u64, elements: u32, bytes: u32) {
    let chunk = Chunk::new(label, elements, &vec![7; bytes as usize]);
    assert_eq!(sequence.put(chunk.clone()), model.insert(label, chunk));
}

fn apply(sequence: &mut Sequence, model: &mut Model, operation: &Operation, next_address: &mut u64) {
    let mut address = || {
        *next_address += 8;
        *next_address
    };
    match *operation {
        Operation::Put(label, elements, bytes) => put(sequence, model, label, elements, bytes),
        Operation::Remove(label) => assert_eq!(sequence.remove(label), model.remove(&label)),
        Operation::PutRow(label, n) => {
            (label..label + u64::from(n)).for_each(|label| put(sequence, model, label, 1, 3));
        }
        Operation::RemoveRow(label, n) => {
            for label in (label..label + u64::from(n)).rev() {
                assert_eq!(sequence.remove(label), model.remove(&label));
            }
        }
        Operation::Publish => {
            let new: Vec<u64> = sequence.new_chunks().iter().map(|chunk| chunk.label).collect();
            let mut places: BTreeMap<u64, Place> = BTreeMap::new();
            new.iter().for_each(|&label| drop(places.insert(label, Place::InLog(address()))));
            let mut given = places.values().cloned();
            sequence.publish(1, || given.next().expect("as many as are new"));
            assert!(given.next().is_none() && !sequence.has_new());
            for (label, chunk) in model.iter_mut().filter(|(_, chunk)| is_new(chunk)) {
                chunk.place = places.remove(label).expect("a new chunk was named");
            }
            assert!(places.is_empty(), "named as new, but not new: {places:?}");
        }
        Operation::Move(label) => {
            let to = address();
            let moved = model.get_mut(&label).filter(|chunk| !is_new(chunk));
            let from = moved.as_ref().map_or(1, |chunk| match chunk.place {
                Place::InLog(from) => from,
                Place::New(_) => 1,
            });
            assert!(!sequence.move_chunk(label, from + 1, to));
            assert_eq!(sequence.move_chunk(label, from, to), moved.is_some());
            if let Some(chunk) = moved {
                chunk.place = Place::InLog(to);
            }
        }
        Operation::Clone => {}
    }
}

fn is_new(chunk: &Chunk) -> bool {
    matches!(chunk.place, Place::New(_))
}

/// Compares everything that can be asked, at some labels and indices.
fn check(sequence: &Sequence, model: &Model, labels: &[u64]) {
    sequence.check();
    let (elements, bytes) = model.values().fold((0, 0), |(elements, bytes), chunk| {
        (elements + u64::from(chunk.elements), bytes + u64::from(chunk.bytes))
    });
    assert_eq!((sequence.elements(), sequence.bytes()), (elements, bytes));
    assert_eq!((sequence.chunk_count(), sequence.is_empty()), (model.len(), model.is_empty()));
    assert_eq!(sequence.has_new(), model.values().any(is_new));
    assert!(sequence.iter_from(0).eq(model.values()));
    assert!(sequence.iter_back_from(u64::MAX).eq(model.values().rev()));
    let index_of = |label| model.range(..label).map(|(_, chunk)| u64::from(chunk.elements)).sum::<u64>();
    let is_it = |found: Option<At<'_>>, expected: Option<&Chunk>| {
        assert_eq!(found.map(|at| at.chunk), expected);
        if let Some(at) = found {
            assert_eq!(at.first_index, index_of(at.chunk.label));
        }
    };
    is_it(sequence.first(), model.values().next());
    is_it(sequence.last(), model.values().next_back());
    for &label in labels {
        is_it(sequence.labelled(label), model.get(&label));
        let up_to = model.range(..=label).next_back().map(|(_, chunk)| chunk);
        is_it(sequence.last_up_to(label), up_to);
        is_it(sequence.last_where(|chunk| chunk.label <= label), up_to);
        is_it(sequence.first_from(label), model.range(label..).next().map(|(_, chunk)| chunk));
        assert!(sequence.iter_from(label).eq(model.range(label..).map(|(_, chunk)| chunk)));
        assert!(sequence.iter_back_from(label).eq(model.range(..=label).rev().map(|(_, chunk)| chunk)));
        let mut before = 0;
        let with_index = model.values().find(|chunk| {
            before += u64::from(chunk.elements);
            label < before
        });
        is_it(sequence.with_index(label), with_index);
        let (mut first, mut end) = (0, 0);
        let with_byte = model.values().find(|chunk| {
            (first, end) = (end, end + u64::from(chunk.bytes));
            label < end
        });
        assert_eq!(sequence.with_byte(label), with_byte.map(|chunk| (chunk, first)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    #[test]
    fn a_sequence_is_what_a_map_of_chunks_is(
        operations in prop::collection::vec(operation(), 1..120),
        labels in prop::collection::vec(0..LABELS + 700, 8),
    ) {
        let (mut sequence, mut model, mut address) = (Sequence::default(), Model::new(), 0);
        let mut clones = Vec::new();
        for operation in &operations {
            apply(&mut sequence, &mut model, operation, &mut address);
            if matches!(operation, Operation::Clone) {
                clones.push((sequence.clone(), model.clone()));
            }
        }
        check(&sequence, &model, &labels);
        clones.iter().for_each(|(sequence, model)| check(sequence, model, &labels));
        let labels: Vec<u64> = model.keys().copied().collect();
        labels.into_iter().for_each(|label| drop(sequence.remove(label)));
        prop_assert_eq!((sequence.is_empty(), sequence.memory_bytes()), (true, 0));
    }
}

/// Each step of growth and of shrinking has a tree of the right form.
#[test]
fn every_size_has_nodes_within_their_bounds() {
    for is_back in [false, true] {
        let (mut sequence, mut model) = (Sequence::default(), Model::new());
        for label in 0..1500 {
            put(&mut sequence, &mut model, if is_back { 1500 - label } else { label }, 1, 1);
            sequence.check();
        }
        check(&sequence, &model, &[0, 1, 700, 1500]);
        for label in 0..=1500 {
            assert_eq!(sequence.remove(label), model.remove(&label));
            sequence.check();
        }
        assert!(sequence.is_empty());
    }
}

/// A change of one chunk shares all other leaves with what it was made from.
#[test]
fn a_change_copies_only_what_leads_to_it() {
    let mut sequence = Sequence::default();
    (0..100_000).for_each(|label| drop(sequence.put(Chunk::new(label, 1, b""))));
    let before = sequence.clone();
    sequence.put(Chunk::new(50_000, 9, b""));
    let mut pairs = sequence.iter_from(0).zip(before.iter_from(0));
    let copied = pairs.by_ref().filter(|(now, then)| !std::ptr::eq(*now, *then)).count();
    assert!((1..=crate::node::LEAF_MOST).contains(&copied), "{copied} chunks were copied");
    assert_eq!((sequence.elements(), before.elements()), (100_008, 100_000));
    assert_eq!(sequence.memory_bytes(), before.memory_bytes());
}
