//! Positions, the one total order of the data, and closed ranges of them.

use crate::Slot;
use crate::beside::placed_by;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

/// XXH3-64 of the whole key; of one beside another, of that one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyHash(pub u64);

impl KeyHash {
    /// The hash of a key.
    #[inline]
    pub fn of_key(key: &[u8]) -> KeyHash {
        KeyHash(xxh3_64(placed_by(key)))
    }
}

/// A key's place in the total order: `slot << 50 | key hash >> 14`. Two keys may share a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u64);

impl Position {
    /// How many low bits order the keys of one slot.
    pub const HASH_BITS: u32 = 50;
    /// The first position.
    pub const FIRST: Position = Position(0);
    /// The last position.
    pub const LAST: Position = Position(u64::MAX);

    /// The position of a key in `slot` with hash `hash`.
    #[inline]
    pub const fn new(slot: Slot, hash: KeyHash) -> Position {
        Position((slot.number() as u64) << Self::HASH_BITS | hash.0 >> (64 - Self::HASH_BITS))
    }

    /// The position of a key.
    #[inline]
    pub fn of_key(key: &[u8]) -> Position {
        Position::new(Slot::of_key(key), KeyHash::of_key(key))
    }

    /// The first position of a slot.
    #[inline]
    pub const fn first_of(slot: Slot) -> Position {
        Position((slot.number() as u64) << Self::HASH_BITS)
    }

    /// The last position of a slot.
    #[inline]
    pub const fn last_of(slot: Slot) -> Position {
        Position((slot.number() as u64) << Self::HASH_BITS | ((1 << Self::HASH_BITS) - 1))
    }

    /// The position's slot.
    #[inline]
    pub const fn slot(self) -> Slot {
        match Slot::new((self.0 >> Self::HASH_BITS) as u16) {
            Some(slot) => slot,
            None => unreachable!(),
        }
    }

    /// The upper 50 bits of the key hash.
    #[inline]
    pub const fn hash_bits(self) -> u64 {
        self.0 & ((1 << Self::HASH_BITS) - 1)
    }

    /// The position after this one, or `None` after the last.
    #[inline]
    pub const fn next(self) -> Option<Position> {
        match self.0.checked_add(1) {
            Some(next) => Some(Position(next)),
            None => None,
        }
    }

    /// The position before this one, or `None` before the first.
    #[inline]
    pub const fn previous(self) -> Option<Position> {
        match self.0.checked_sub(1) {
            Some(previous) => Some(Position(previous)),
            None => None,
        }
    }
}

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#018x}", self.0)
    }
}

/// What [`Position`]'s and [`PositionRange`]'s parsers refuse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsePositionError(String);

impl std::fmt::Display for ParsePositionError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for ParsePositionError {}

impl std::str::FromStr for Position {
    type Err = ParsePositionError;

    fn from_str(text: &str) -> Result<Position, ParsePositionError> {
        let parsed = match text.strip_prefix("0x") {
            Some(digits) if !digits.starts_with('+') => u64::from_str_radix(digits, 16),
            _ => text.parse(),
        };
        parsed.map(Position).map_err(|_| {
            // The length of a position, and a little more.
            let shown = &text[..text.floor_char_boundary(24)];
            ParsePositionError(format!("'{shown}' is not a position: give up to 16 hex digits after 0x"))
        })
    }
}

impl From<Position> for String {
    fn from(position: Position) -> String {
        position.to_string()
    }
}

// Positions are hex strings in JSON: readers that use doubles cannot hold 64-bit integers.
impl Serialize for Position {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // As `Display`, without the formatter: maps and metadata are mostly positions.
        let mut text = *b"0x0000000000000000";
        for (place, digit) in text[2..].iter_mut().rev().enumerate() {
            *digit = b"0123456789abcdef"[(self.0 >> (4 * place) & 0xf) as usize];
        }
        serializer.serialize_str(std::str::from_utf8(&text).expect("digits"))
    }
}

impl<'de> Deserialize<'de> for Position {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Position, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// A non-empty closed interval of positions, `first..=last`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "(Position, Position)", into = "(Position, Position)")]
pub struct PositionRange {
    first: Position,
    last: Position,
}

impl PositionRange {
    /// Every position.
    pub const ALL: PositionRange = PositionRange { first: Position::FIRST, last: Position::LAST };

    /// The range `first..=last`, or `None` if `last` is before `first`.
    pub const fn new(first: Position, last: Position) -> Option<PositionRange> {
        if first.0 <= last.0 { Some(PositionRange { first, last }) } else { None }
    }

    /// The range of one position.
    #[inline]
    pub const fn only(position: Position) -> PositionRange {
        PositionRange { first: position, last: position }
    }

    /// All positions of the slots `first..=last`, or `None` if `last` is before `first`.
    pub const fn of_slots(first: Slot, last: Slot) -> Option<PositionRange> {
        PositionRange::new(Position::first_of(first), Position::last_of(last))
    }

    /// The first position in the range.
    #[inline]
    pub const fn first(self) -> Position {
        self.first
    }

    /// The last position in the range.
    #[inline]
    pub const fn last(self) -> Position {
        self.last
    }

    /// Whether the position is in the range.
    #[inline]
    pub const fn contains(self, position: Position) -> bool {
        self.first.0 <= position.0 && position.0 <= self.last.0
    }

    /// Whether all of `other` is in the range.
    pub const fn covers(self, other: PositionRange) -> bool {
        self.first.0 <= other.first.0 && other.last.0 <= self.last.0
    }

    /// Whether the two ranges share a position.
    pub const fn overlaps(self, other: PositionRange) -> bool {
        self.first.0 <= other.last.0 && other.first.0 <= self.last.0
    }

    /// The intersection of the two ranges.
    pub fn intersection(self, other: PositionRange) -> Option<PositionRange> {
        PositionRange::new(self.first.max(other.first), self.last.min(other.last))
    }

    /// The parts of the range before and after `other`.
    pub fn without(self, other: PositionRange) -> (Option<PositionRange>, Option<PositionRange>) {
        if !self.overlaps(other) {
            return (Some(self), None);
        }
        let before = other.first.previous().and_then(|last| PositionRange::new(self.first, last));
        let after = other.last.next().and_then(|first| PositionRange::new(first, self.last));
        (before, after)
    }

    /// What lies between some positions of the range, which are in order.
    pub fn without_each(self, positions: &[Position]) -> impl Iterator<Item = PositionRange> {
        let before = positions.iter().map(|position| position.previous());
        let behind = positions.iter().map(|position| position.next());
        let starts = [Some(self.first)].into_iter().chain(behind);
        let ends = before.chain([Some(self.last)]);
        starts.zip(ends).filter_map(|(first, last)| PositionRange::new(first?, last?))
    }

    /// The slots that the range touches, first and last.
    pub const fn slots(self) -> (Slot, Slot) {
        (self.first.slot(), self.last.slot())
    }

    /// Whether the range starts and ends at slot boundaries.
    pub fn is_whole_slots(self) -> bool {
        self.first.hash_bits() == 0 && self.last == Position::last_of(self.last.slot())
    }
}

impl TryFrom<(Position, Position)> for PositionRange {
    type Error = ParsePositionError;

    fn try_from((first, last): (Position, Position)) -> Result<PositionRange, ParsePositionError> {
        PositionRange::new(first, last)
            .ok_or_else(|| ParsePositionError(format!("the range {first}-{last} ends before it starts")))
    }
}

impl From<PositionRange> for (Position, Position) {
    fn from(range: PositionRange) -> (Position, Position) {
        (range.first, range.last)
    }
}

impl std::fmt::Display for PositionRange {
    /// Whole slots as `slots 0-8191`, finer ranges as `positions 0x..-0x..`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.is_whole_slots() {
            let (first, last) = self.slots();
            if first == last { write!(f, "slot {first}") } else { write!(f, "slots {first}-{last}") }
        } else {
            write!(f, "positions {}-{}", self.first, self.last)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(first: u64, last: u64) -> PositionRange {
        PositionRange::new(Position(first), Position(last)).unwrap()
    }

    #[test]
    fn position_is_slot_then_hash() {
        let key = b"{user1000}.following";
        let position = Position::of_key(key);
        assert_eq!(position.slot(), Slot::of_key(key));
        assert_eq!(position.hash_bits(), KeyHash::of_key(key).0 >> 14);
        assert!(Position::first_of(position.slot()) <= position);
        assert!(position <= Position::last_of(position.slot()));
    }

    #[test]
    fn slots_tile_the_positions() {
        assert_eq!(Position::first_of(Slot::new(0).unwrap()), Position::FIRST);
        assert_eq!(Position::last_of(Slot::LAST), Position::LAST);
        for slot in Slot::all().skip(1) {
            let before = Slot::new(slot.number() - 1).unwrap();
            assert_eq!(Position::last_of(before).next(), Some(Position::first_of(slot)));
        }
    }

    #[test]
    fn without_leaves_both_sides() {
        assert_eq!(range(0, 9).without(range(3, 5)), (Some(range(0, 2)), Some(range(6, 9))));
        assert_eq!(range(0, 9).without(range(0, 5)), (None, Some(range(6, 9))));
        assert_eq!(range(0, 9).without(range(3, u64::MAX)), (Some(range(0, 2)), None));
        assert_eq!(range(0, 9).without(PositionRange::ALL), (None, None));
        assert_eq!(range(0, 9).without(range(20, 30)), (Some(range(0, 9)), None));
    }

    #[test]
    fn without_each_leaves_what_is_between() {
        let without = |range: PositionRange, positions: &[u64]| {
            let positions: Vec<Position> = positions.iter().copied().map(Position).collect();
            range.without_each(&positions).collect::<Vec<_>>()
        };
        assert_eq!(without(range(2, 9), &[]), [range(2, 9)]);
        assert_eq!(without(range(2, 9), &[4, 5, 7]), [range(2, 3), range(6, 6), range(8, 9)]);
        assert_eq!(without(range(2, 9), &[2, 9]), [range(3, 8)]);
        assert_eq!(without(range(2, 2), &[2]), []);
        assert_eq!(without(PositionRange::ALL, &[0, u64::MAX]), [range(1, u64::MAX - 1)]);
    }

    #[test]
    fn only_contains_one_position() {
        for position in [Position::FIRST, Position(7), Position::LAST] {
            assert_eq!(Some(PositionRange::only(position)), PositionRange::new(position, position));
        }
    }

    #[test]
    fn parse_and_print_round_trip() {
        for position in [Position::FIRST, Position(0x1234), Position::LAST] {
            assert_eq!(position.to_string().parse(), Ok(position));
            assert_eq!(serde_json::to_string(&position).unwrap(), format!("\"{position}\""));
        }
        for bad in ["", "0x", "0x+1", "-1", "0x10000000000000000", "slot"] {
            assert!(bad.parse::<Position>().is_err(), "{bad}");
        }
    }

    #[test]
    fn ranges_print_as_slots_where_they_can() {
        let slot = |n| Slot::new(n).unwrap();
        assert_eq!(PositionRange::of_slots(slot(0), slot(8191)).unwrap().to_string(), "slots 0-8191");
        assert_eq!(PositionRange::of_slots(slot(7), slot(7)).unwrap().to_string(), "slot 7");
        assert_eq!(range(1, 2).to_string(), "positions 0x0000000000000001-0x0000000000000002");
    }
}
