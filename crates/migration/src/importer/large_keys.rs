//! Keys that are waited for and whose records come in pieces: one after the other, in turns with the pulls of
//! other keys, so that nobody waits for all of a large record but who asked for it.

use super::partial::{Partial, join};
use super::records::{Records, Untaken};
use sidle_store::Store;
use sidle_types::Fill;
use sidle_wire::Piece;
use std::collections::VecDeque;
use std::sync::Arc;

pub(super) type Key = Arc<[u8]>;

/// Keys known to be large, in the order that this was found out.
#[derive(Debug, Default)]
pub(super) struct LargeKeys {
    /// The pieces of the first one come; the others wait for it.
    keys: VecDeque<Key>,
    /// What is in hand of the first one.
    partial: Option<Partial>,
    /// The next pull is one of other keys, if there are any.
    pub(super) yields: bool,
}

impl LargeKeys {
    pub(super) fn first(&self) -> Option<&Key> {
        self.keys.front()
    }

    /// What is in hand of the first one.
    pub(super) fn in_hand(&self) -> Option<Piece> {
        self.partial.as_ref().map(Partial::in_hand)
    }

    /// How many wait, and whether one comes. `most`: how many keys can be waited for.
    pub(super) fn queues(&self, most: usize) -> [Fill; 2] {
        [
            Fill::new("large keys to be pulled", self.keys.len(), most),
            Fill::new("large keys of which a piece is here", usize::from(self.partial.is_some()), 1),
        ]
    }

    /// Notes that a key is large; whether its turn has come, and nothing of it is in hand.
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

    /// Takes a piece of the first one; its records when nothing is missing.
    pub(super) fn join<'b>(
        &mut self,
        store: &Store,
        piece: Piece,
        bytes: &[u8],
    ) -> Result<Option<Records<'b>>, Untaken> {
        join(&mut self.partial, store, piece, bytes)
    }
}
