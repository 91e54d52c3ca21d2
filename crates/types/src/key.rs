//! A key with its slot and hash, computed once.

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
