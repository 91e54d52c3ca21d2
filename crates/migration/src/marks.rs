//! The source's changes since they were last taken.
//!
//! Purpose: while a range is copied before its freeze, every worker marks its changes. The source machine
//! takes the marks, a round at a time, and sends the records that are there then.
//!
//! Invariant M11: a worker marks *after* the write and within the same command. So a taken mark's write is
//! readable, and after the freeze barrier every mark has been made.
//!
//! Realises: Albatross 4.2 ("delta of changes"), RAMCloud's migration (log records since the copy).
//! Deviation: marks keep where something changed, not what: a key is sent once a round, however often it
//! changes.
//!
//! Ownership: shared by all workers and the source machine. Each takes one short lock, workers by slot.

use sidle_types::{Position, PositionRange};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Workers that change different slots seldom wait for each other.
const STRIPES: usize = 64;

/// Marked positions and ranges. At most as many positions as were written since they were last taken.
#[derive(Debug)]
pub(crate) struct Marks {
    /// By slot, modulo their number.
    positions: Box<[Mutex<BTreeSet<Position>>]>,
    /// Apart from each other, in no order. A range that was cleared in pieces stays in these pieces, so that
    /// the target also clears it in pieces.
    ranges: Mutex<Vec<PositionRange>>,
    count: AtomicU64,
}

impl Marks {
    pub(crate) fn new() -> Marks {
        Marks {
            positions: (0..STRIPES).map(|_| Mutex::default()).collect(),
            ranges: Mutex::default(),
            count: AtomicU64::new(0),
        }
    }

    /// How many positions and ranges are marked.
    pub(crate) fn len(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// Something at the position has changed.
    pub(crate) fn mark(&self, position: Position) {
        let stripe = &self.positions[usize::from(position.slot().number()) % STRIPES];
        if locked(stripe).insert(position) {
            self.count.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Everything in the range may have changed.
    pub(crate) fn mark_range(&self, range: PositionRange) {
        let mut ranges = locked(&self.ranges);
        let mut new = vec![range];
        for marked in ranges.iter() {
            let outside = |part: PositionRange| <[_; 2]>::from(part.without(*marked)).into_iter().flatten();
            new = new.into_iter().flat_map(outside).collect();
        }
        self.count.fetch_add(new.len() as u64, Ordering::AcqRel);
        ranges.append(&mut new);
    }

    /// Takes all marks: in order, apart from each other.
    pub(crate) fn take(&self) -> Vec<PositionRange> {
        let mut taken = std::mem::take(&mut *locked(&self.ranges));
        self.count.fetch_sub(taken.len() as u64, Ordering::AcqRel);
        taken.sort_unstable_by_key(|range| range.first());
        let wide = taken.len();
        for stripe in &self.positions {
            let positions = std::mem::take(&mut *locked(stripe));
            self.count.fetch_sub(positions.len() as u64, Ordering::AcqRel);
            for position in positions {
                let before = taken[..wide].partition_point(|range| range.last() < position);
                if !taken[..wide].get(before).is_some_and(|range| range.contains(position)) {
                    taken.push(PositionRange::only(position));
                }
            }
        }
        taken.sort_unstable_by_key(|range| range.first());
        taken
    }
}

/// A panic under the lock leaves a valid set: an insertion either happened or did not.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::tests::range;

    #[test]
    fn take_gives_each_mark_once_and_in_order() {
        let marks = Marks::new();
        let far = Position(u64::MAX - 3);
        for position in [far, Position(7), Position(7), Position(3)] {
            marks.mark(position);
        }
        assert_eq!(marks.len(), 3);
        assert_eq!(marks.take(), [range(3, 3), range(7, 7), range(far.0, far.0)]);
        assert_eq!((marks.len(), marks.take()), (0, vec![]));
    }

    #[test]
    fn take_leaves_out_positions_in_marked_ranges() {
        let marks = Marks::new();
        marks.mark(Position(5));
        marks.mark_range(range(10, 19));
        marks.mark(Position(10));
        marks.mark(Position(20));
        assert_eq!(marks.take(), [range(5, 5), range(10, 19), range(20, 20)]);
        assert_eq!(marks.len(), 0);
    }

    #[test]
    fn mark_range_keeps_the_pieces_that_it_came_in() {
        let marks = Marks::new();
        marks.mark_range(range(10, 19));
        marks.mark_range(range(30, 39));
        marks.mark_range(range(0, u64::MAX));
        marks.mark_range(range(12, 35));
        let expected = [range(0, 9), range(10, 19), range(20, 29), range(30, 39), range(40, u64::MAX)];
        assert_eq!(marks.len(), 5);
        assert_eq!(marks.take(), expected);
    }
}
