//! A copy of a sequence that is brought up to date, compared with the sequence.

use crate::chunk::{Chunk, Place};
use crate::sequence::Sequence;
use proptest::prelude::*;
use std::collections::BTreeMap;

const LABELS: u64 = 2000;

#[derive(Clone, Debug)]
enum Operation {
    /// As many chunks from a label on are put, this far apart.
    Put(u64, u16, u64),
    /// As many labels from one on are removed, so that neighbours empty.
    Remove(u64, u16),
    /// A chunk gets another label, as a list's do.
    Relabel(u64, u64),
    Publish,
    /// The copy takes so many spans.
    Walk(u8),
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        4 => (0..LABELS, 0..4u16, 1..9u64).prop_map(|(label, n, step)| Operation::Put(label, n, step)),
        1 => (0..LABELS, 0..400u16, 1..3u64).prop_map(|(label, n, step)| Operation::Put(label, n, step)),
        3 => (0..LABELS, 0..4u16).prop_map(|(label, n)| Operation::Remove(label, n)),
        1 => (0..LABELS, 0..500u16).prop_map(|(label, n)| Operation::Remove(label, n)),
        2 => (0..LABELS, 0..LABELS).prop_map(|(from, to)| Operation::Relabel(from, to)),
        3 => Just(Operation::Publish),
        6 => (0..6u8).prop_map(Operation::Walk),
    ]
}

/// A sequence with the versions of its chunks, which in the store their records have.
#[derive(Default)]
struct Source {
    sequence: Sequence,
    version: u64,
    versions: BTreeMap<u64, u64>,
}

impl Source {
    fn put(&mut self, label: u64) {
        self.sequence.put(Chunk::new(label, 1, b"x"));
        self.versions.insert(label, self.version + 1);
    }

    fn remove(&mut self, label: u64) {
        self.sequence.remove(label);
        self.versions.remove(&label);
    }

    fn publish(&mut self) {
        self.version += 1;
        self.sequence.publish(self.version, || Place::InLog(8));
        self.sequence.check();
    }

    fn apply(&mut self, operation: &Operation) {
        match *operation {
            Operation::Put(label, n, step) => {
                (0..u64::from(n)).for_each(|at| self.put(label + at * step));
            }
            Operation::Remove(label, n) => (label..label + u64::from(n)).for_each(|label| self.remove(label)),
            Operation::Relabel(from, to) => {
                self.remove(from);
                self.put(to);
            }
            Operation::Publish => self.publish(),
            Operation::Walk(_) => {}
        }
    }
}

/// What another node has of it: the version of the chunk at each label.
#[derive(Default)]
struct Copied {
    chunks: BTreeMap<u64, u64>,
    /// It is whole as of this version ...
    since: u64,
    /// ... and will be as of this one, once the walk is over that has come to this label.
    walk: Option<(u64, u64)>,
}

impl Copied {
    /// Takes one span of what is published; whether that was the last one.
    fn step(&mut self, source: &Source) -> bool {
        let (base, label) = self.walk.unwrap_or((source.version, 0));
        let span = source.sequence.changed_since(self.since, label);
        let next = span.and_then(|span| {
            assert!(span.first >= label && span.first <= span.last, "a walk goes on");
            let held: Vec<u64> = self.chunks.range(span.first..=span.last).map(|(&label, _)| label).collect();
            let is_named = |label: &u64| span.chunks.iter().any(|chunk| chunk.label == *label);
            self.chunks.retain(|label, _| !held.contains(label) || is_named(label));
            for chunk in span.chunks {
                assert!((span.first..=span.last).contains(&chunk.label));
                let version = source.versions[&chunk.label];
                if version > self.since {
                    self.chunks.insert(chunk.label, version);
                }
                assert_eq!(self.chunks.get(&chunk.label), Some(&version), "it is sent or held");
            }
            span.last.checked_add(1)
        });
        self.walk = next.map(|next| (base, next));
        if next.is_none() {
            self.since = base;
        }
        next.is_none()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    #[test]
    fn a_copy_that_takes_what_changed_is_what_the_sequence_is(
        operations in prop::collection::vec(operation(), 1..150),
    ) {
        let (mut source, mut copied) = (Source::default(), Copied::default());
        source.apply(&Operation::Put(0, 300, 5));
        source.publish();
        for operation in &operations {
            source.apply(operation);
            if let Operation::Walk(steps) = operation {
                // Only what is published is read.
                source.publish();
                for _ in 0..*steps {
                    copied.step(&source);
                }
            }
        }
        source.publish();
        while !copied.step(&source) {}
        while !copied.step(&source) {}
        prop_assert_eq!(copied.chunks, source.versions);
    }
}

/// A removed label is seen, though its leaf begins behind it since, and has other chunks.
#[test]
fn what_is_removed_at_the_edge_of_a_leaf_shows() {
    for gone in 0..400 {
        let mut source = Source::default();
        source.apply(&Operation::Put(0, 400, 1));
        source.publish();
        let mut copied = Copied::default();
        while !copied.step(&source) {}
        source.remove(gone);
        source.publish();
        while !copied.step(&source) {}
        assert_eq!(copied.chunks, source.versions, "without {gone}");
    }
}

/// What did not change is not looked at.
#[test]
fn spans_are_as_few_as_changes() {
    let mut source = Source::default();
    source.apply(&Operation::Put(0, 60_000, 1));
    source.publish();
    let since = source.version;
    for label in (1000..60_000).step_by(10_000) {
        source.put(label);
        source.remove(label + 5000);
    }
    source.publish();
    let (mut spans, mut chunks, mut label) = (0, 0, Some(0));
    while let Some(span) = label.and_then(|label| source.sequence.changed_since(since, label)) {
        (spans, chunks) = (spans + 1, chunks + span.chunks.len());
        label = span.last.checked_add(1);
    }
    assert!(spans <= 12 && chunks <= 12 * crate::node::LEAF_MOST, "{spans} spans, {chunks} chunks");
    assert!(source.sequence.changed_since(source.version, 0).is_none());
}
