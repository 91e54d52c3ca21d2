//! A SCAN's position as a number that every client can hold.
//!
//! Many clients keep cursors as doubles or signed numbers, which hold at most 53 bits exactly. A position has
//! 64. So a cursor names a stretch of 2048 positions, by the slot and the upper 39 bits of the hash, and a
//! scan pauses only between stretches. A client that chooses its keys' hashes can put any number of them into
//! one stretch. They are returned together, like the keys of one position.

use crate::Position;

/// The low bits of a position that a cursor omits.
const STRETCH_BITS: u32 = 64 - ScanCursor::BITS;
/// The number of the last stretch. It is twice as long as the others: cursors must be below 2^53, and 0 is
/// reserved.
const LAST_STRETCH: u64 = (1 << ScanCursor::BITS) - 2;

/// A SCAN's cursor: 0 at the start, then one more than the next stretch's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ScanCursor(pub u64);

impl ScanCursor {
    /// Every cursor is below two to the power of this: a double holds it exactly.
    pub const BITS: u32 = 53;
    /// Where a scan starts, and its result when it is complete.
    pub const START: ScanCursor = ScanCursor(0);

    /// The cursor of a position's stretch; never the start's.
    #[inline]
    pub const fn of(position: Position) -> ScanCursor {
        let stretch = position.0 >> STRETCH_BITS;
        ScanCursor(if stretch < LAST_STRETCH { stretch + 1 } else { LAST_STRETCH + 1 })
    }

    /// The first position of the stretch; `None` for a number beyond all cursors.
    pub const fn first(self) -> Option<Position> {
        match self.0.checked_sub(1) {
            None => Some(Position::FIRST),
            Some(stretch) if stretch <= LAST_STRETCH => Some(Position(stretch << STRETCH_BITS)),
            Some(_) => None,
        }
    }

    /// The first position of a position's stretch.
    #[inline]
    pub const fn stretch_start(position: Position) -> Position {
        match ScanCursor::of(position).first() {
            Some(first) => first,
            None => unreachable!(),
        }
    }

    /// Whether a stretch starts at this position, so that a scan may pause before it.
    #[inline]
    pub const fn is_boundary(position: Position) -> bool {
        ScanCursor::stretch_start(position).0 == position.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EDGES: [u64; 9] =
        [0, 1, 2047, 2048, 1 << 50, u64::MAX - 4096, u64::MAX - 4095, u64::MAX - 2047, u64::MAX];

    fn check(position: Position) {
        let cursor = ScanCursor::of(position);
        let first = cursor.first().expect("a position has a stretch");
        assert!(0 < cursor.0 && cursor.0 < 1 << 53, "{position}");
        assert_eq!((cursor.0 as f64) as u64, cursor.0, "a double holds it");
        assert!(first <= position && ScanCursor::is_boundary(first));
        assert!(position.0 - first.0 < 4096);
        if let Some(before) = first.previous() {
            assert!(ScanCursor::of(before) < cursor, "stretches do not overlap");
        }
    }

    #[test]
    fn cursors_start_at_one_and_end_below_two_to_the_53rd() {
        EDGES.map(Position).into_iter().for_each(check);
        assert_eq!(ScanCursor::of(Position::FIRST), ScanCursor(1));
        assert_eq!(ScanCursor::of(Position::LAST), ScanCursor((1 << 53) - 1));
        assert_eq!(ScanCursor::START.first(), Some(Position::FIRST));
        assert_eq!(ScanCursor(1 << 53).first(), None);
        assert_eq!(ScanCursor(u64::MAX).first(), None);
    }

    #[test]
    fn cursors_are_in_the_order_of_positions() {
        let mut drawn = 1u64;
        for _ in 0..10_000 {
            drawn = drawn.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            let (one, two) = (Position(drawn), Position(drawn.rotate_left(23)));
            check(one);
            assert!((one < two) == (ScanCursor::of(one) < ScanCursor::of(two)), "{one} {two}");
        }
    }
}
