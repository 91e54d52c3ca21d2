//! What must hold at the end of every migration.

use crate::model::Bytes;
use crate::world::{Node, Outcome, Pair};
use sidle_migration::{SourceEvent, TargetEvent};
use sidle_outline::{Chunk, Large, Order, Outline};
use sidle_types::{HashedKey, PositionRange, WallMs};
use std::collections::BTreeMap;

impl Pair {
    /// Neither end considered the other broken: lost, repeated and delayed messages were recognised as such
    /// (M10).
    pub(crate) fn check_no_breach(&self) {
        let target = self.target_events.iter().find(|event| matches!(event, TargetEvent::Close(..)));
        let source = self.source_events.iter().find(|event| matches!(event, SourceEvent::Close(..)));
        assert_eq!((target, source), (None, None));
    }

    /// Every waiting command has been answered; none was refused.
    pub(crate) fn check_all_answered(&self) {
        let refused = self.woken.iter().find(|(_, outcome)| !matches!(outcome, Outcome::Answered(_)));
        assert_eq!(refused, None);
    }

    /// Every live value of the range at a node.
    pub(crate) fn content(node: &Node, range: PositionRange, wall: WallMs) -> BTreeMap<Bytes, Bytes> {
        let mut content = BTreeMap::new();
        let guard = node.store.pin();
        let mut at = Some(range.first());
        while let Some(from) = at {
            at = node.store.visit(from, range.last(), 1_000, &mut |record| {
                if !record.is_expired(wall) {
                    let outline = guard.outline(record);
                    let value = match &outline {
                        Some(outline) => flat(Large::new(outline, &guard).iter_from(Order::Main, 0).map(
                            |(chunk, bytes)| {
                                check_twice(outline, chunk);
                                (chunk.label, bytes)
                            },
                        )),
                        None => record.value().to_vec(),
                    };
                    let before = content.insert(record.key().to_vec(), value);
                    assert_eq!(before, None, "a key is found once");
                }
            });
        }
        content
    }

    /// The target has exactly what the model has; the source has nothing; nothing is left behind.
    pub(crate) fn check_end(&self) {
        let range = self.spec.range;
        let expected: BTreeMap<Bytes, Bytes> = self
            .model
            .values
            .iter()
            .filter(|(key, _)| range.contains(HashedKey::new(key).position()))
            .filter_map(|(key, _)| Some((key.clone(), self.model.value(key, self.wall)?.clone())))
            .chain(self.model.collections.iter().map(|(key, chunks)| {
                (key.clone(), flat(chunks.iter().map(|(&label, bytes)| (label, bytes.as_slice()))))
            }))
            .collect();
        let actual = Pair::content(&self.target, range, self.wall);
        let differing: Vec<_> = expected
            .keys()
            .chain(actual.keys())
            .filter(|key| expected.get(*key) != actual.get(*key))
            .collect();
        assert!(differing.is_empty(), "{} keys differ, among them {:?}", differing.len(), differing.first());
        assert_eq!(self.source.store.len_in(range), 0, "the source has given everything back");
        assert_eq!(self.target.store.tombstones_in(range), 0, "no tombstone is left");
        assert_eq!(self.parked(), 0, "nobody waits for ever");
        for key in self.model.values.keys() {
            if !range.contains(HashedKey::new(key).position()) {
                let guard = self.source.store.pin();
                let found = guard.get(HashedKey::new(key)).value();
                let live = found.filter(|record| !record.is_expired(self.wall)).map(|record| record.value());
                assert_eq!(live, self.model.value(key, self.wall).map(Vec::as_slice), "outside the range");
            }
        }
    }
}

/// A large collection's chunks as one value.
fn flat<'b>(chunks: impl Iterator<Item = (u64, &'b [u8])>) -> Bytes {
    chunks.flat_map(|(label, bytes)| [&label.to_le_bytes(), bytes].concat()).collect()
}

/// What is there twice is so here.
fn check_twice(outline: &Outline, chunk: &Chunk) {
    let again = outline.sequence(Order::ByMember).labelled(chunk.label ^ 77).map(|at| at.chunk.bytes);
    assert_eq!(again, chunk.label.is_multiple_of(4).then_some(chunk.bytes), "{chunk:?}");
}
