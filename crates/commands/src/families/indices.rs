//! Indices as Redis reads them: negative ones count from the end.

use std::ops::Range;

/// The index that a number names, negative ones counting from the end.
pub(super) fn index_in(length: usize, number: i64) -> Option<usize> {
    let index = if number < 0 { (length as i64).checked_add(number)? } else { number };
    usize::try_from(index).ok().filter(|index| *index < length)
}

/// The indices from one to another, both included, negative ones counting from the end.
pub(super) fn range_in(length: usize, first: i64, last: i64) -> Range<usize> {
    let from_start = |number: i64| if number < 0 { number.saturating_add(length as i64) } else { number };
    let first = from_start(first).max(0);
    let end = from_start(last).saturating_add(1).clamp(0, length as i64);
    if first >= end { 0..0 } else { first as usize..end as usize }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_count_from_both_ends() {
        for (number, index) in [
            (0, Some(0)),
            (3, Some(3)),
            (4, None),
            (-1, Some(3)),
            (-4, Some(0)),
            (-5, None),
            (i64::MIN, None),
        ] {
            assert_eq!(index_in(4, number), index, "{number}");
        }
        for (first, last, range) in [
            (0, -1, 0..4),
            (1, 2, 1..3),
            (-2, -1, 2..4),
            (-100, 100, 0..4),
            (2, 1, 0..0),
            (4, 9, 0..0),
            (0, -5, 0..0),
            (i64::MIN, i64::MAX, 0..4),
            (i64::MAX, i64::MIN, 0..0),
        ] {
            assert_eq!(range_in(4, first, last), range, "{first} {last}");
        }
        assert_eq!(range_in(0, 0, -1), 0..0);
    }
}
