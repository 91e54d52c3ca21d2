//! The longest common subsequence of two strings: 64 pairs of places at a time.
//!
//! Let `L(i, j)` be the length for the first `i` bytes of one string and the first `j` of the other. Along a
//! row, where `i` stays, it grows by 0 or 1 a place. So a row is one bit for each byte of the other string: 0
//! where it grows. The next row follows by an addition over the whole row: the carries move each growth to
//! the first match before it (Hyyrö, "Bit-parallel LCS-length computation revisited", 2004).
//!
//! Several subsequences may be the longest; which one is found decides the reply. Redis walks from the end:
//! where two bytes match, they are taken; else it goes where `L` is larger, and along the row if both are the
//! same. Where bytes differ, `L(i, j)` is the larger of both. So the way leads along the row just where the
//! row does not grow: the rows' bits are all that the walk needs.

use std::ops::Range;

const WORD_BITS: usize = u64::BITS as usize;

/// Bytes that are the same in both strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Matched {
    at_one: usize,
    at_other: usize,
    pub(crate) bytes: usize,
}

impl Matched {
    /// Its place in the one string.
    pub(crate) fn one(&self) -> Range<usize> {
        self.at_one..self.at_one + self.bytes
    }

    /// Its place in the other.
    pub(crate) fn other(&self) -> Range<usize> {
        self.at_other..self.at_other + self.bytes
    }
}

/// Two strings, with all rows.
pub(crate) struct Common<'s> {
    one: &'s [u8],
    other: &'s [u8],
    /// After each byte of the one string, in whole bytes.
    rows: Vec<u8>,
}

/// One row, and what changes it.
struct Row {
    /// 0 where the length grows.
    bits: Vec<u64>,
    /// Where the other string has a byte, for each byte that the one string has.
    places: Vec<u64>,
    /// Which of them, by the byte.
    of_byte: [usize; 256],
}

impl Row {
    fn new(one: &[u8], other: &[u8]) -> Row {
        let words = other.len().div_ceil(WORD_BITS);
        let mut of_byte = [usize::MAX; 256];
        let mut places = Vec::new();
        for &byte in one {
            if of_byte[usize::from(byte)] == usize::MAX {
                of_byte[usize::from(byte)] = places.len();
                places.resize(places.len() + words, 0);
            }
        }
        for (place, &byte) in other.iter().enumerate() {
            if let Some(word) = places.get_mut(of_byte[usize::from(byte)].saturating_add(place / WORD_BITS)) {
                *word |= 1 << (place % WORD_BITS);
            }
        }
        Row { bits: vec![u64::MAX; words], places, of_byte }
    }

    /// The row after one more byte.
    fn step(&mut self, byte: u8) {
        let places = &self.places[self.of_byte[usize::from(byte)]..];
        let mut carry = false;
        for (bits, places) in self.bits.iter_mut().zip(places) {
            let matching = *bits & places;
            let (sum, carried) = bits.overflowing_add(matching);
            let (sum, carried_again) = sum.overflowing_add(carry.into());
            carry = carried || carried_again;
            *bits = sum | (*bits & !places);
        }
    }
}

impl<'s> Common<'s> {
    /// The length of the longest common subsequence.
    pub(crate) fn length(one: &[u8], other: &[u8]) -> usize {
        let mut row = Row::new(one, other);
        one.iter().for_each(|&byte| row.step(byte));
        let growths: usize = row.bits.iter().map(|bits| bits.count_zeros() as usize).sum();
        // Carries may clear bits behind the last byte.
        let behind = row.bits.len() * WORD_BITS - other.len();
        let unused = row.bits.last().map_or(0, |last| (!last).unbounded_shr((WORD_BITS - behind) as u32));
        growths - unused.count_ones() as usize
    }

    /// Compares two strings. It takes a bit for each pair of their bytes, and up to as much again meanwhile.
    pub(crate) fn new(one: &'s [u8], other: &'s [u8]) -> Common<'s> {
        let row_bytes = other.len().div_ceil(8);
        let mut row = Row::new(one, other);
        let mut rows = Vec::with_capacity(one.len() * row_bytes);
        for &byte in one {
            row.step(byte);
            let end = rows.len() + row_bytes;
            for bits in &row.bits {
                let left = (end - rows.len()).min(size_of::<u64>());
                rows.extend_from_slice(&bits.to_le_bytes()[..left]);
            }
        }
        Common { one, other, rows }
    }

    /// Whether the length for the first `i` bytes grows with the `j`th byte of the other string.
    fn grows(&self, i: usize, j: usize) -> bool {
        let row_bytes = self.other.len().div_ceil(8);
        let byte = self.rows[(i - 1) * row_bytes + (j - 1) / 8];
        byte >> ((j - 1) % 8) & 1 == 0
    }

    /// The parts of the subsequence that Redis finds, the last one first.
    pub(crate) fn matched(&self) -> Vec<Matched> {
        let mut found: Vec<Matched> = Vec::new();
        let (mut i, mut j) = (self.one.len(), self.other.len());
        while i > 0 && j > 0 {
            if self.one[i - 1] != self.other[j - 1] {
                match self.grows(i, j) {
                    true => i -= 1,
                    false => j -= 1,
                }
                continue;
            }
            match found.last_mut().filter(|part| part.at_one == i && part.at_other == j) {
                Some(part) => *part = Matched { at_one: i - 1, at_other: j - 1, bytes: part.bytes + 1 },
                None => found.push(Matched { at_one: i - 1, at_other: j - 1, bytes: 1 }),
            }
            (i, j) = (i - 1, j - 1);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The lengths, by their definition.
    fn lengths(one: &[u8], other: &[u8]) -> Vec<Vec<usize>> {
        let mut lengths = vec![vec![0; other.len() + 1]; one.len() + 1];
        for i in 1..=one.len() {
            for j in 1..=other.len() {
                lengths[i][j] = match one[i - 1] == other[j - 1] {
                    true => lengths[i - 1][j - 1] + 1,
                    false => lengths[i - 1][j].max(lengths[i][j - 1]),
                };
            }
        }
        lengths
    }

    /// The pairs of places that Redis takes, the last one first.
    fn walk(one: &[u8], other: &[u8]) -> Vec<(usize, usize)> {
        let lengths = lengths(one, other);
        let (mut i, mut j) = (one.len(), other.len());
        let mut pairs = Vec::new();
        while i > 0 && j > 0 {
            if one[i - 1] == other[j - 1] {
                (i, j) = (i - 1, j - 1);
                pairs.push((i, j));
            } else if lengths[i - 1][j] > lengths[i][j - 1] {
                i -= 1;
            } else {
                j -= 1;
            }
        }
        pairs
    }

    fn check(one: &[u8], other: &[u8]) {
        let matched = Common::new(one, other).matched();
        let pairs = matched.iter().flat_map(|part| part.one().zip(part.other()).rev());
        assert_eq!(pairs.collect::<Vec<_>>(), walk(one, other));
        let touch =
            |pair: &[Matched]| pair[0].at_one == pair[1].one().end && pair[0].at_other == pair[1].other().end;
        assert!(!matched.windows(2).any(touch), "parts are as long as they can be");
        assert_eq!(Common::length(one, other), lengths(one, other)[one.len()][other.len()]);
    }

    #[test]
    fn matched_is_what_redis_finds() {
        let matched = |one: &str, other: &str| {
            let parts = Common::new(one.as_bytes(), other.as_bytes()).matched();
            parts.iter().map(|part| (part.at_one, part.at_other, part.bytes)).collect::<Vec<_>>()
        };
        assert_eq!(matched("ohmytext", "mynewtext"), [(4, 5, 4), (2, 0, 2)]);
        assert_eq!(matched("", "abc"), []);
        assert_eq!(matched("abc", ""), []);
        assert_eq!(matched("abc", "xyz"), []);
        assert_eq!(matched("abc", "abc"), [(0, 0, 3)]);
    }

    #[test]
    fn edges_of_words_are_right() {
        for bytes in [1, 7, 8, 9, 63, 64, 65, 127, 128, 129, 192] {
            check(&b"a".repeat(bytes), &b"a".repeat(bytes));
            check(&b"ab".repeat(bytes), &b"b".repeat(bytes));
            check(&b"b".repeat(3), &b"ab".repeat(bytes));
        }
    }

    proptest! {
        #[test]
        fn rows_give_the_walk_over_lengths(
            one in prop::collection::vec(b'a'..b'e', 0..200),
            other in prop::collection::vec(b'a'..b'e', 0..200),
        ) {
            check(&one, &other);
        }
    }
}
