//! Where ranges are cut so that each half of them takes about half of the memory.

use sidle_types::{Position, PositionRange};

/// Two parts of the ranges with equally many positions; none of a single one. Positions are hashes, so these
/// have about equally many keys.
pub(super) fn halves(ranges: &[PositionRange]) -> Option<[Vec<PositionRange>; 2]> {
    let count = |range: &PositionRange| u128::from(range.last().0 - range.first().0) + 1;
    let mut left = ranges.iter().map(count).sum::<u128>() / 2;
    if left == 0 {
        return None;
    }
    let [mut first, mut second] = [Vec::new(), Vec::new()];
    for range in ranges {
        let before = left.min(count(range));
        left -= before;
        let cut = u64::try_from(before).ok().and_then(|before| range.first().0.checked_add(before));
        match cut.filter(|_| before < count(range)).map(Position) {
            None => first.push(*range),
            Some(cut) => {
                first.extend(cut.previous().and_then(|last| PositionRange::new(range.first(), last)));
                second.extend(PositionRange::new(cut, range.last()));
            }
        }
    }
    Some([first, second])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(first: u64, last: u64) -> PositionRange {
        PositionRange::new(Position(first), Position(last)).expect("in order")
    }

    #[test]
    fn halves_have_equally_many_positions() {
        let middle = u64::MAX / 2;
        let whole = [PositionRange::ALL];
        assert_eq!(halves(&whole), Some([vec![range(0, middle)], vec![range(middle + 1, u64::MAX)]]));
        let some = [range(40, 49), range(0, 3), range(7, 8)];
        assert_eq!(halves(&some), Some([vec![range(40, 47)], vec![range(48, 49), range(0, 3), range(7, 8)]]));
        assert_eq!(halves(&[range(0, 3), range(9, 12)]), Some([vec![range(0, 3)], vec![range(9, 12)]]));
        assert_eq!(halves(&[range(5, 5)]), None);
        assert_eq!(halves(&[]), None);
    }
}
