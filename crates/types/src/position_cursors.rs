//! How far each partition of a range goes, as clients are sent it.
//!
//! Bytes: a bit for each partition that goes to its end (8 bytes), then each partition's first position
//! behind (8 bytes each). Numbers are little-endian. No bytes are nothing new.

use crate::Position;

/// The most partitions: one bit for each.
const PARTITIONS_MAX: usize = 64;

/// Appends where each partition ends; `None`: at its own end.
///
/// # Panics
/// If there are more than 64 partitions.
pub fn write_cursors(cursors: impl ExactSizeIterator<Item = Option<Position>>, out: &mut Vec<u8>) {
    assert!(cursors.len() <= PARTITIONS_MAX, "one bit for each partition");
    let begun = out.len();
    out.extend_from_slice(&[0; 8]);
    let mut complete = 0u64;
    for (index, next) in cursors.enumerate() {
        complete |= u64::from(next.is_none()) << index;
        out.extend_from_slice(&next.map_or(0, |next| next.0).to_le_bytes());
    }
    out[begun..begun + 8].copy_from_slice(&complete.to_le_bytes());
}

/// Reads what [`write_cursors`] wrote, or nothing from no bytes. `None`: these are no cursors.
pub fn parse_cursors(bytes: &[u8]) -> Option<impl ExactSizeIterator<Item = Option<Position>>> {
    let (words, rest) = bytes.as_chunks::<8>();
    let (complete, nexts) = match words {
        [] => (0, words),
        [complete, nexts @ ..] => (u64::from_le_bytes(*complete), nexts),
    };
    let next = move |(index, next): (usize, &[u8; 8])| {
        (complete >> index & 1 == 0).then_some(Position(u64::from_le_bytes(*next)))
    };
    let is_sound = rest.is_empty() && nexts.len() <= PARTITIONS_MAX && words.len() != 1;
    is_sound.then(|| nexts.iter().enumerate().map(next))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(bytes: &[u8]) -> Option<Vec<Option<Position>>> {
        parse_cursors(bytes).map(Iterator::collect)
    }

    #[test]
    fn cursors_are_read_as_written() {
        for cursors in [vec![None], vec![Some(Position(7)), None, Some(Position::LAST)], vec![None; 64]] {
            let mut bytes = Vec::new();
            write_cursors(cursors.iter().copied(), &mut bytes);
            assert_eq!(bytes.len(), 8 + 8 * cursors.len());
            assert_eq!(parsed(&bytes), Some(cursors));
            assert_eq!(parsed(&bytes[..bytes.len() - 1]), None, "cut short");
        }
        assert_eq!(parsed(&[]), Some(Vec::new()));
        assert_eq!(parsed(&[0; 8]), None, "no partition");
        assert_eq!(parsed(&[0; 8 * 66]), None, "too many partitions");
    }
}
