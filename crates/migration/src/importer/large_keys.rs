//! Awaited keys whose records arrive in pieces. They are pulled one after the other, alternating with pulls
//! of other keys. So only commands on a large record wait for all of it.

use super::partial::{Partial, join};
use super::parts::TargetParts;
use super::records::{Records, Untaken};
use sidle_store::Store;
use sidle_types::Fill;
use sidle_wire::Piece;
use std::collections::VecDeque;
use std::sync::Arc;

pub(super) type Key = Arc<[u8]>;

/// Keys known to be large, in order of discovery.
#[derive(Debug, Default)]
pub(super) struct LargeKeys {
    /// The pieces of the first one arrive; the others wait for it.
    keys: VecDeque<Key>,
    /// The piece in hand of the first one.
    partial: Option<Partial>,
    /// Whether the next pull is for other keys, if there are any.
    pub(super) yields: bool,
}

impl LargeKeys {
    pub(super) fn first(&self) -> Option<&Key> {
        self.keys.front()
    }

    /// The piece in hand of the first one.
    pub(super) fn in_hand(&self) -> Option<Piece> {
        self.partial.as_ref().map(Partial::in_hand)
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
            self.partial = None;
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
        join(&mut self.partial, parts, store, piece, bytes, false)
    }
}
