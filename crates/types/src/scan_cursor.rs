//! Where a SCAN goes on: a number that every client can hold.
//!
//! Many clients keep cursors as doubles or as signed numbers, which hold no more than 53 bits exactly. A
//! position has 64. So a cursor names a stretch of 2048 positions, by the slot and the upper 39 bits of the
//! hash, and a walk that hands out a cursor stops between two stretches only. A client that can choose its
//! keys' hashes may put any number of them into one stretch; they are then returned together, as the keys of
//! one position always were.

use crate::Position;

/// The low bits of a position that a cursor leaves out.
const STRETCH_BITS: u32 = 64 - ScanCursor::BITS;
/// The number of the last stretch. It is twice as long as the others, since its cursor has to stay below 2^53
/// and 0 is not to be had.
const LAST_STRETCH: u64 = (1 << ScanCursor::BITS) - 2;

/// A SCAN's cursor: 0 at the start, then one more than the number of the stretch that comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ScanCursor(pub u64);

impl ScanCursor {
    /// Every cursor is below two to the power of this: what a double holds exactly.
    pub const BITS: u32 = 53;
    /// Where a walk starts, and what says that it is over.
    pub const START: ScanCursor = ScanCursor(0);

    /// The cursor of the stretch that a position lies in; never the start's.
    #[inline]
    pub const fn of(position: Position) -> ScanCursor {
        let stretch = position.0 >> STRETCH_BITS;
        ScanCursor(if stretch < LAST_STRETCH { stretch + 1 } else { LAST_STRETCH + 1 })
    }

    /// The first position of the stretch; `None` for a number that is no cursor, behind all of them.
    pub const fn first(self) -> Option<Position> {
        match self.0.checked_sub(1) {
            None => Some(Position::FIRST),
            Some(stretch) if stretch <= LAST_STRETCH => Some(Position(stretch << STRETCH_BITS)),
            Some(_) => None,
        }
    }

    /// The first position of the stretch that a position lies in.
    #[inline]
    pub const fn stretch_start(position: Position) -> Position {
        match ScanCursor::of(position).first() {
            Some(first) => first,
            None => unreachable!(),
        }
    }

    /// Whether a stretch starts at this position, so that a walk may stop in front of it.
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
