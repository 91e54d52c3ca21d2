//! Awaited keys whose records arrive in pieces. They are pulled one after the other, alternating with pulls
//! of other keys. So only commands on a large record wait for all of it.

use super::copies::Copies;
use super::joining::{join, join_patch};
use super::partial::Partial;
use super::parts::TargetParts;
use super::records::{Records, Untaken};
use sidle_store::Store;
use sidle_types::{Fill, Position};
use sidle_wire::Piece;
use std::collections::VecDeque;
use std::sync::Arc;

pub(super) type Key = Arc<[u8]>;

/// Keys known to be large, in order of discovery.
#[derive(Debug, Default)]
pub(super) struct LargeKeys {
    /// The pieces of the first one arrive; the others wait for it.
    keys: VecDeque<Key>,
    /// The piece in hand of the first one, if it is not one of the [`Copies`].
    partial: Option<Partial>,
    /// Whether pieces of the first one were pulled.
    pub(super) is_begun: bool,
    /// Whether the next pull is for other keys, if there are any.
    pub(super) yields: bool,
}

impl LargeKeys {
    pub(super) fn first(&self) -> Option<&Key> {
        self.keys.front()
    }

    /// The piece in hand of the first one.
    pub(super) fn in_hand(&self, copies: &Copies) -> Option<Piece> {
        let position = Position::of_key(self.first()?);
        copies.in_hand(position).or_else(|| self.partial.as_ref().map(Partial::in_hand))
    }

    /// A command waits for this key: it is next, behind the one that arrives.
    pub(super) fn hurry(&mut self, key: &[u8]) {
        let place = self.keys.iter().position(|large| **large == *key);
        let (Some(place), behind) = (place, usize::from(self.is_begun)) else { return };
        if place > behind
            && let Some(key) = self.keys.remove(place)
        {
            self.keys.insert(behind, key);
        }
    }

    /// How many wait, and whether one arrives. `most`: how many keys can be awaited.
    pub(super) fn queues(&self, most: usize) -> [Fill; 2] {
        [
            Fill::new("large keys to be pulled", self.keys.len(), most),
            Fill::new("large keys of which a piece is here", usize::from(self.partial.is_some()), 1),
        ]
    }

    /// Notes that a key is large; returns whether it is the first, and nothing of it is in hand.
    pub(super) fn add(&mut self, key: &Key) -> bool {
        if !self.keys.contains(key) {
            self.keys.push_back(key.clone());
        }
        self.first() == Some(key) && self.partial.is_none()
    }

    /// The key is answered, or not needed.
    pub(super) fn remove(&mut self, key: &[u8]) {
        if self.first().is_some_and(|first| **first == *key) {
            (self.partial, self.is_begun) = (None, false);
        }
        self.keys.retain(|large| **large != *key);
    }

    /// Takes a piece of the first one; returns its records once nothing is missing.
    pub(super) fn join<'b>(
        &mut self,
        parts: &mut TargetParts,
        store: &Store,
        piece: Piece,
        bytes: &[u8],
    ) -> Result<Option<Records<'b>>, Untaken> {
        if parts.copies.has(piece.position) {
            return join_patch(parts, store, piece, bytes);
        }
        join(&mut self.partial, parts, store, piece, bytes, false)
    }
}
