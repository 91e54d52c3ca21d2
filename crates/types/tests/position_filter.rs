//! Filters of positions: what is in one is found, little else is, and nonsense is refused.

use proptest::collection::vec;
use proptest::prelude::*;
use sidle_types::{FILTER_POSITIONS_MAX, FINER_BITS_MAX, Position, PositionFilter};

fn written(positions: &[Position], finer: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    PositionFilter::write(positions, finer, &mut bytes);
    bytes
}

/// Positions of keys, from this one on.
fn keys(from: usize, count: usize) -> Vec<Position> {
    (from..from + count).map(|n| Position::of_key(format!("key:{n}").as_bytes())).collect()
}

/// How many of 100,000 other keys a filter believes to be in it.
fn errors(filter: &PositionFilter) -> usize {
    keys(1_000_000, 100_000).into_iter().filter(|&position| filter.contains(position)).count()
}

#[test]
fn it_takes_ten_bits_a_position_and_errs_for_one_in_256() {
    for count in [9, 100, 1000, 1500, FILTER_POSITIONS_MAX] {
        let bytes = written(&keys(0, count), 0);
        assert!(bytes.len() * 8 <= 40 + 8 + count * 11, "{count}: {} bytes", bytes.len());
        let filter = PositionFilter::parse(&bytes).expect("it was written here");
        assert!(keys(0, count).into_iter().all(|position| filter.contains(position)));
        assert!(errors(&filter) < 100_000 / 256 * 5 / 4, "{count}: {}", errors(&filter));
    }
}

#[test]
fn further_bits_make_errors_rarer() {
    let errors =
        |finer| errors(&PositionFilter::parse(&written(&keys(0, 1000), finer)).expect("written here"));
    assert!(errors(0) > 150 && errors(2) < 150 && errors(FINER_BITS_MAX) <= 1);
}

#[test]
fn few_positions_are_listed_and_none_are_nothing() {
    assert_eq!(written(&[], 0), []);
    assert_eq!(PositionFilter::parse(&[]), Some(PositionFilter::Positions(Vec::new())));
    let few = keys(0, 8);
    assert_eq!(PositionFilter::parse(&written(&few, 3)), Some(PositionFilter::Positions(few)));
}

#[test]
fn what_is_no_filter_is_refused() {
    let set = written(&keys(0, 100), 0);
    let with = |at: usize, byte: u8| {
        let mut bytes = set.clone();
        bytes[at] = byte;
        bytes
    };
    let mut longer = set.clone();
    longer.push(0);
    let positions = vec![0; 1 + 8 * (FILTER_POSITIONS_MAX + 1)];
    for (bytes, what) in [
        (vec![2], "an unknown kind"),
        (vec![0, 1, 2], "half a position"),
        (positions, "too many positions"),
        (vec![1, 8, 8], "half a header"),
        (with(1, 64), "too many bits for the parameter"),
        (with(1, 7), "fewer bits than the parameter"),
        (with(2, 0), "a parameter of nothing"),
        (with(2, 255), "a parameter beyond all"),
        (with(3, 255), "more than there is"),
        (with(4, 255), "more than any filter has"),
        (set[..set.len() - 1].to_vec(), "cut short"),
        (longer, "something behind it"),
        ([&set[..5], &[0xff; 100]].concat(), "a gap without an end"),
    ] {
        assert_eq!(PositionFilter::parse(&bytes), None, "{what}");
    }
}

proptest! {
    #[test]
    fn what_was_written_is_read(positions in vec(any::<u64>(), 0..300), finer in 0..=FINER_BITS_MAX) {
        let positions: Vec<Position> = positions.into_iter().map(Position).collect();
        let bytes = written(&positions, finer);
        let filter = PositionFilter::parse(&bytes).expect("it was written here");
        prop_assert!(positions.iter().all(|&position| filter.contains(position)));
        prop_assert!(filter.len() <= positions.len());
        prop_assert_eq!(filter.is_empty(), positions.is_empty());
    }

    #[test]
    fn close_positions_are_read_too(first in any::<u64>(), steps in vec(0u64..3, 0..300)) {
        let next = |at: &mut u64, step: u64| { *at = at.wrapping_add(step); Some(Position(*at)) };
        let positions: Vec<Position> = steps.into_iter().scan(first, next).collect();
        let filter = PositionFilter::parse(&written(&positions, 0)).expect("it was written here");
        prop_assert!(positions.iter().all(|&position| filter.contains(position)));
    }

    #[test]
    fn any_bytes_are_a_filter_or_none(bytes in vec(any::<u8>(), 0..200)) {
        if let Some(filter) = PositionFilter::parse(&bytes) {
            prop_assert!(filter.len() <= bytes.len() * 8 && filter.len() <= FILTER_POSITIONS_MAX);
        }
    }

    #[test]
    fn changed_bytes_of_a_set_are_a_filter_or_none(at in 0usize..140, bit in 0u32..8) {
        let mut bytes = written(&keys(0, 100), 0);
        let at = at % bytes.len();
        bytes[at] ^= 1 << bit;
        if let Some(PositionFilter::Fingerprints { bits, values }) = PositionFilter::parse(&bytes) {
            prop_assert!(values.is_sorted_by(|a, b| a < b) && values.iter().all(|value| value >> bits == 0));
        }
    }
}
