//! A chunk's record: its key, and its size.

use crate::address::Address;
use crate::record::{CHUNK_KEY_BYTES, Shape};
use sidle_outline::{Chunk, CollectionId, Order, Place};

/// Identifies a chunk of a store; the key of its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkName {
    pub(crate) id: CollectionId,
    pub(crate) order: Order,
    pub(crate) label: u64,
}

impl ChunkName {
    /// The key of its record.
    pub(crate) fn to_key(self) -> [u8; CHUNK_KEY_BYTES] {
        let mut key = [0; CHUNK_KEY_BYTES];
        key[..8].copy_from_slice(&self.id.0.to_le_bytes());
        key[8] = self.order as u8;
        key[9..].copy_from_slice(&self.label.to_le_bytes());
        key
    }

    /// That of the chunk whose record has this key.
    pub(crate) fn of_key(key: &[u8]) -> ChunkName {
        let number = |at: usize| u64::from_le_bytes(key[at..at + 8].try_into().expect("a slice of eight"));
        let order = if key[8] == Order::Main as u8 { Order::Main } else { Order::ByMember };
        ChunkName { id: CollectionId(number(0)), order, label: number(9) }
    }
}

/// The bytes of a chunk's record.
pub(crate) fn record_bytes(chunk: &Chunk) -> usize {
    Shape::chunk(chunk.bytes as usize).total_bytes()
}

/// The bytes of the records of some chunks.
pub(crate) fn records_bytes<'c>(chunks: impl Iterator<Item = &'c Chunk>) -> u64 {
    chunks.map(|chunk| record_bytes(chunk) as u64).sum()
}

/// Where a published chunk is.
pub(crate) fn address_of(chunk: &Chunk) -> Option<Address> {
    match chunk.place {
        Place::InLog(offset) => Some(Address::from_offset(offset)),
        Place::New(_) => None,
    }
}
