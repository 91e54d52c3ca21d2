//! What one end owns of a range: where a migration that turned back left it, and its way back begins.
//!
//! Both ends make it of their own view, once no cut is in transit. So the two are each other's rest.

use sidle_types::{Position, PositionRange};

/// Positions, as ranges in order and apart. It never changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Share(Box<[PositionRange]>);

impl Share {
    /// All positions of these ranges, which may be in any order, and touch or overlap.
    pub fn of(ranges: impl IntoIterator<Item = PositionRange>) -> Share {
        let mut ranges: Vec<PositionRange> = ranges.into_iter().collect();
        ranges.sort_unstable_by_key(|range| range.first());
        ranges.dedup_by(|later, earlier| {
            let is_apart = earlier.last().next().is_some_and(|next| next < later.first());
            if !is_apart {
                let last = earlier.last().max(later.last());
                *earlier = PositionRange::new(earlier.first(), last).expect("it only grows");
            }
            !is_apart
        });
        Share(ranges.into())
    }

    /// Whether the position is in it.
    #[inline]
    pub fn has(&self, position: Position) -> bool {
        let index = self.0.partition_point(|range| range.last() < position);
        self.0.get(index).is_some_and(|range| range.first() <= position)
    }

    /// Its ranges, in order.
    pub fn ranges(&self) -> &[PositionRange] {
        &self.0
    }

    /// What is not in it of the range.
    pub fn rest_of(&self, range: PositionRange) -> Share {
        let mut rest = Vec::new();
        let mut from = Some(range.first());
        for own in self.0.iter().filter(|own| own.overlaps(range)) {
            let before = from.zip(own.first().previous());
            rest.extend(before.and_then(|(from, last)| PositionRange::new(from, last)));
            from = own.last().next();
        }
        rest.extend(from.and_then(|from| PositionRange::new(from, range.last())));
        Share(rest.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::tests::range;

    #[test]
    fn ranges_are_put_in_order_and_joined() {
        let share = Share::of([range(20, 29), range(5, 5), range(10, 12), range(13, 13), range(25, 40)]);
        assert_eq!(share.ranges(), [range(5, 5), range(10, 13), range(20, 40)]);
        let inside = [0, 4, 5, 6, 9, 10, 13, 14, 19, 20, 40, 41, u64::MAX].map(|at| share.has(Position(at)));
        let expected = [0, 0, 1, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0].map(|has| has == 1);
        assert_eq!(inside, expected);
    }

    #[test]
    fn a_share_and_its_rest_make_the_range() {
        let whole = range(10, u64::MAX);
        for share in [
            Share::default(),
            Share::of([whole]),
            Share::of([range(10, 10), range(15, 20), range(u64::MAX, u64::MAX)]),
            Share::of([range(0, 12), range(30, 31)]),
        ] {
            let rest = share.rest_of(whole);
            for at in [10, 11, 12, 13, 14, 15, 20, 21, 29, 30, 31, 32, u64::MAX - 1, u64::MAX].map(Position) {
                assert_ne!(share.has(at), rest.has(at), "{at}");
            }
            assert!(rest.ranges().iter().all(|&part| whole.covers(part)));
            assert_eq!(Share::of(rest.ranges().iter().copied()), rest, "in order and apart");
        }
    }
}
