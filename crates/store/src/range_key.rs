//! Ranges of positions as keys of records of a durable log.

use crate::record::CLEARED_KEY_BYTES;
use sidle_types::{Position, PositionRange};

/// The key of a record about a range.
pub(crate) fn key_of(range: PositionRange) -> [u8; CLEARED_KEY_BYTES] {
    let mut key = [0; CLEARED_KEY_BYTES];
    key[..8].copy_from_slice(&range.first().0.to_le_bytes());
    key[8..].copy_from_slice(&range.last().0.to_le_bytes());
    key
}

/// The range of such a key, whatever follows it; of one that no writer made, some range.
pub(crate) fn range_of(key: &[u8]) -> PositionRange {
    let position =
        |at: usize| Position(u64::from_le_bytes(key[at..at + 8].try_into().expect("a slice of eight")));
    PositionRange::new(position(0), position(8)).unwrap_or(PositionRange::only(position(0)))
}
