//! A key with its slot and hash, computed once.

use crate::beside::beside_what;
use crate::{KeyHash, Position, Slot};

/// A key with its slot and hash, so that a command computes neither twice.
#[derive(Clone, Copy, Debug)]
pub struct HashedKey<'k> {
    bytes: &'k [u8],
    slot: Slot,
    hash: KeyHash,
}

impl<'k> HashedKey<'k> {
    /// Hashes a key.
    #[inline]
    pub fn new(bytes: &'k [u8]) -> HashedKey<'k> {
        HashedKey { bytes, slot: Slot::of_key(bytes), hash: KeyHash::of_key(bytes) }
    }

    /// The key with these bytes beside this one ([`locks_key`](crate::locks_key)).
    #[inline]
    pub fn beside(self, bytes: &[u8]) -> HashedKey<'_> {
        debug_assert_eq!(beside_what(bytes), Some(self.bytes));
        HashedKey { bytes, ..self }
    }

    /// Whether it is a key of Sidle's own, beside a user's.
    #[inline]
    pub fn is_beside(self) -> bool {
        self.bytes.first() == Some(&0) && beside_what(self.bytes).is_some()
    }

    /// The key itself.
    #[inline]
    pub const fn bytes(self) -> &'k [u8] {
        self.bytes
    }

    /// The key's slot.
    #[inline]
    pub const fn slot(self) -> Slot {
        self.slot
    }

    /// The key's hash.
    #[inline]
    pub const fn hash(self) -> KeyHash {
        self.hash
    }

    /// The key's position.
    #[inline]
    pub const fn position(self) -> Position {
        Position::new(self.slot, self.hash)
    }
}
