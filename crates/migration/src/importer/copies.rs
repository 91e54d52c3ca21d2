//! Copies of large collections from before the freeze, of a range that freezes whole.
//!
//! M32: a copy is whole as of a version of before the freeze, and not what the source has. It lies in the
//! store under no key, so no command sees it and it is no entry (M5). Behind the freeze a patch is pulled, of
//! what changed since; only a patch that began behind the freeze makes it the key's value.
//!
//! Priority pulls bring the patches, for commands that wait and for all others, and their partition's pull
//! waits for that; without priority pulls it brings the patch itself. What came out of turn is not sent again
//! with its partition: the pull there names what is in hand.

use super::partial::Partial;
use sidle_types::{Fill, Position};
use sidle_wire::Piece;
use sidle_wire::limits::LARGE_HINTS_MAX;
use std::collections::BTreeMap;

/// The copies: see the module's header.
#[derive(Debug, Default)]
pub(super) struct Copies {
    copies: BTreeMap<Position, Partial>,
    /// Collections that came out of turn and are complete, with what was in hand then. The source is frozen,
    /// so it has nothing else there.
    complete: BTreeMap<Position, Piece>,
}

impl Copies {
    /// What is in hand of a collection that is copied.
    pub(super) fn in_hand(&self, position: Position) -> Option<Piece> {
        self.copies.get(&position).map(Partial::in_hand)
    }

    /// Where collections are copied.
    pub(super) fn positions(&self) -> impl Iterator<Item = Position> {
        self.copies.keys().copied()
    }

    /// Whether there is a copy at this position.
    pub(super) fn has(&self, position: Position) -> bool {
        self.copies.contains_key(&position)
    }

    /// Whether there is a copy of this key's collection.
    pub(super) fn has_key(&self, position: Position, key: &[u8]) -> bool {
        self.copies.get(&position).is_some_and(|copy| copy.is_of(key))
    }

    /// The keys of all copies.
    pub(super) fn keys(&self) -> Vec<Box<[u8]>> {
        self.copies.values().filter_map(|copy| copy.key().map(Box::from)).collect()
    }

    /// The key of the copy at this position.
    pub(super) fn key_at(&self, position: Position) -> Option<Box<[u8]>> {
        self.copies.get(&position)?.key().map(Box::from)
    }

    /// Takes the copy, to be patched by its partition's pull.
    pub(super) fn take(&mut self, position: Position) -> Option<Partial> {
        self.copies.remove(&position)
    }

    /// The copy is not needed.
    pub(super) fn forget(&mut self, position: Position) {
        self.copies.remove(&position);
    }

    /// Nothing is needed.
    pub(super) fn clear(&mut self) {
        self.copies.clear();
        self.complete.clear();
    }

    /// The source is frozen: each needs a patch that begins now.
    pub(super) fn outdate(&mut self) {
        self.copies.values_mut().for_each(Partial::outdate);
    }

    /// All of what the source has at the position is here, and this was in hand last.
    pub(super) fn completed(&mut self, piece: Piece) {
        self.complete.insert(piece.position, piece);
    }

    /// What was in hand last, if all of what the source has at the position came out of turn.
    pub(super) fn complete(&self, position: Position) -> Option<Piece> {
        self.complete.get(&position).copied()
    }

    /// How full it is.
    pub(super) fn queue(&self) -> Fill {
        Fill::new("large collections that are copied ahead", self.copies.len(), LARGE_HINTS_MAX)
    }

    /// Keeps the copy.
    pub(super) fn put(&mut self, position: Position, copy: Partial) {
        self.copies.insert(position, copy);
    }

    /// Takes all copies.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Partial> {
        std::mem::take(&mut self.copies).into_values()
    }
}
