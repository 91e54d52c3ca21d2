//! The positions that a recovery is about.

use sidle_types::{Position, PositionRange};
use std::sync::Arc;

/// All positions, or some ranges of them.
#[derive(Clone, Debug)]
pub(crate) struct RecoveredPositions(
    /// In order; they do not overlap.
    Arc<[PositionRange]>,
);

impl RecoveredPositions {
    /// All.
    pub(crate) fn all() -> RecoveredPositions {
        RecoveredPositions(Arc::new([PositionRange::ALL]))
    }

    /// Those of these ranges, in any order.
    pub(crate) fn only(ranges: &[PositionRange]) -> RecoveredPositions {
        let mut sorted = ranges.to_vec();
        sorted.sort_unstable_by_key(|range| range.first());
        let mut joined: Vec<PositionRange> = Vec::with_capacity(sorted.len());
        for range in sorted {
            match joined.last_mut().filter(|before| before.last() >= range.first()) {
                Some(before) => {
                    let last = before.last().max(range.last());
                    *before = PositionRange::new(before.first(), last).expect("it only grows");
                }
                None => joined.push(range),
            }
        }
        RecoveredPositions(joined.into())
    }

    /// Whether a position is among them.
    #[inline]
    pub(crate) fn has(&self, position: Position) -> bool {
        let behind = self.0.partition_point(|range| range.first() <= position);
        behind > 0 && self.0[behind - 1].last() >= position
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_found_in_ranges_of_any_order() {
        let range = |first, last| PositionRange::new(Position(first), Position(last)).expect("in order");
        let some =
            RecoveredPositions::only(&[range(50, u64::MAX), range(10, 19), range(15, 20), range(30, 30)]);
        for at in [10, 15, 19, 20, 30, 50, u64::MAX] {
            assert!(some.has(Position(at)), "{at}");
        }
        for at in [0, 9, 21, 29, 31, 49] {
            assert!(!some.has(Position(at)), "{at}");
        }
        assert!(RecoveredPositions::all().has(Position(0)) && RecoveredPositions::all().has(Position::LAST));
        assert!(!RecoveredPositions::only(&[]).has(Position(7)));
    }
}
