//! A set of positions, kept as few ranges.

use sidle_types::{Position, PositionRange};

/// Positions, as ranges that neither touch nor overlap, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PositionSet {
    ranges: Vec<PositionRange>,
}

impl PositionSet {
    /// Adds the positions of a range.
    pub(crate) fn add(&mut self, range: PositionRange) {
        let touches = |other: &PositionRange| {
            let before = range.first().previous().unwrap_or(Position::FIRST);
            let after = range.last().next().unwrap_or(Position::LAST);
            other.first() <= after && before <= other.last()
        };
        let touched: Vec<PositionRange> = self.ranges.extract_if(.., |other| touches(other)).collect();
        let first = touched.iter().map(|other| other.first()).fold(range.first(), Position::min);
        let last = touched.iter().map(|other| other.last()).fold(range.last(), Position::max);
        let place = self.ranges.partition_point(|other| other.last() < first);
        self.ranges.insert(place, PositionRange::new(first, last).expect("the least is below the greatest"));
    }

    /// The first part of a range without any of the positions.
    pub(crate) fn first_gap(&self, range: PositionRange) -> Option<PositionRange> {
        let mut rest = range;
        for covered in &self.ranges {
            match rest.without(*covered) {
                (Some(before), _) if covered.overlaps(rest) => return Some(before),
                (Some(_), _) => {}
                (None, after) => rest = after?,
            }
        }
        Some(rest)
    }

    /// Whether any of the positions is in the range.
    pub(crate) fn touches(&self, range: PositionRange) -> bool {
        self.ranges.iter().any(|covered| covered.overlaps(range))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidle_testbed::fixtures::range;

    #[test]
    fn add_joins_what_touches() {
        let mut covered = PositionSet::default();
        for (first, last) in [(10, 19), (40, 49), (20, 29), (0, 0), (60, u64::MAX), (25, 45)] {
            covered.add(range(first, last));
        }
        assert_eq!(covered.ranges, [range(0, 0), range(10, 49), range(60, u64::MAX)]);
    }

    #[test]
    fn first_gap_is_what_is_left_in_front() {
        let mut covered = PositionSet::default();
        assert_eq!(covered.first_gap(range(5, 9)), Some(range(5, 9)));
        covered.add(range(10, 19));
        covered.add(range(30, 39));
        for (whole, gap) in [
            ((0, 50), Some((0, 9))),
            ((10, 50), Some((20, 29))),
            ((12, 15), None),
            ((10, 39), Some((20, 29))),
            ((35, 50), Some((40, 50))),
            ((22, 25), Some((22, 25))),
            ((20, 35), Some((20, 29))),
        ] {
            let gap = gap.map(|(first, last)| range(first, last));
            assert_eq!(covered.first_gap(range(whole.0, whole.1)), gap, "{whole:?}");
        }
        assert!(covered.touches(range(0, 10)) && !covered.touches(range(20, 29)));
    }
}
