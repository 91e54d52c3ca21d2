//! Scores and bounds as Redis reads them.

use super::super::indices::range_in;
use crate::reply_error::ReplyError;
use crate::strtod::{self, parse_f64};
use sidle_collections::SortedSet;
use std::ops::Range;

/// The score that a command sets or adds.
pub(super) fn score(text: &[u8]) -> Result<f64, ReplyError> {
    parse_f64(text).ok_or(ReplyError::NotAFloat)
}

/// A range of members, in the order of the sorted set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Bounds<'a> {
    /// By place, both included, negative ones counting from the end.
    Ranks(i64, i64),
    /// By score.
    Scores(ScoreBound, ScoreBound),
    /// By text, among members of one score.
    Texts(TextBound<'a>, TextBound<'a>),
}

/// A bound of scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ScoreBound {
    score: f64,
    is_open: bool,
}

impl ScoreBound {
    fn parse(text: &[u8]) -> Option<ScoreBound> {
        let (text, is_open) = match text {
            [b'(', rest @ ..] => (rest, true),
            rest => (rest, false),
        };
        Some(ScoreBound { score: strtod::read(text)?.number, is_open })
    }

    fn admits_above(self, score: f64) -> bool {
        if self.is_open { score > self.score } else { score >= self.score }
    }

    fn admits_below(self, score: f64) -> bool {
        if self.is_open { score < self.score } else { score <= self.score }
    }
}

/// A bound of texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextBound<'a> {
    First,
    Last,
    Including(&'a [u8]),
    Excluding(&'a [u8]),
}

impl<'a> TextBound<'a> {
    fn parse(text: &'a [u8]) -> Option<TextBound<'a>> {
        match text {
            b"-" => Some(TextBound::First),
            b"+" => Some(TextBound::Last),
            [b'[', rest @ ..] => Some(TextBound::Including(rest)),
            [b'(', rest @ ..] => Some(TextBound::Excluding(rest)),
            _ => None,
        }
    }

    fn admits_above(self, member: &[u8]) -> bool {
        match self {
            TextBound::First => true,
            TextBound::Last => false,
            TextBound::Including(bound) => member >= bound,
            TextBound::Excluding(bound) => member > bound,
        }
    }

    fn admits_below(self, member: &[u8]) -> bool {
        match self {
            TextBound::First => false,
            TextBound::Last => true,
            TextBound::Including(bound) => member <= bound,
            TextBound::Excluding(bound) => member < bound,
        }
    }
}

impl<'a> Bounds<'a> {
    /// A range of scores.
    pub(super) fn scores(low: &[u8], high: &[u8]) -> Result<Bounds<'a>, ReplyError> {
        let bound = |text| ScoreBound::parse(text).ok_or(ReplyError::text("ERR min or max is not a float"));
        Ok(Bounds::Scores(bound(low)?, bound(high)?))
    }

    /// A range of texts.
    pub(super) fn texts(low: &'a [u8], high: &'a [u8]) -> Result<Bounds<'a>, ReplyError> {
        let refusal = ReplyError::text("ERR min or max not valid string range item");
        match (TextBound::parse(low), TextBound::parse(high)) {
            (Some(low), Some(high)) => Ok(Bounds::Texts(low, high)),
            _ => Err(refusal),
        }
    }

    /// The indices of the members in the range. Ranks count from the end if `is_reversed`.
    ///
    /// Texts are in order among members of one score only; of others, as in Redis, it is not defined which
    /// are in the range.
    pub(super) fn indices(&self, set: SortedSet<'_>, is_reversed: bool) -> Range<usize> {
        match *self {
            Bounds::Ranks(first, last) => {
                let length = set.member_count();
                let range = range_in(length, first, last);
                if is_reversed { length - range.end..length - range.start } else { range }
            }
            Bounds::Scores(low, high) => {
                let start = set.count_while(|(_, score)| !low.admits_above(score));
                start..set.count_while(|(_, score)| high.admits_below(score)).max(start)
            }
            Bounds::Texts(low, high) => {
                let start = set.count_while(|(member, _)| !low.admits_above(member));
                start..set.count_while(|(member, _)| high.admits_below(member)).max(start)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidle_collections::{Draft, Finished, Limits, Scored, SortedSetDraft};
    use sidle_outline::{Chunks, Large};

    #[test]
    fn bounds_choose_members() {
        let members: Vec<Scored<'_>> = vec![(b"a", 1.0), (b"b", 2.0), (b"c", 2.0), (b"d", 3.0)];
        for packed_bytes in [0, 1024] {
            let limits = Limits { packed_bytes, chunk_bytes: 20, ..Limits::default() };
            let finished = SortedSetDraft::made_of(members.iter().copied()).finish(&limits);
            let set = match &finished {
                Finished::Packed(bytes) => SortedSet::of(bytes),
                Finished::Large(outline) => SortedSet::large(Large::new(outline, &NoChunks)),
            };
            let of = |bounds: Result<Bounds<'_>, ReplyError>, reversed: bool| {
                let indices = bounds.unwrap().indices(set, reversed);
                set.range(indices).map(|(member, _)| char::from(member[0])).collect::<String>()
            };
            assert_eq!(of(Bounds::scores(b"2", b"3"), false), "bcd");
            assert_eq!(of(Bounds::scores(b"(2", b"+inf"), false), "d");
            assert_eq!(of(Bounds::scores(b"-inf", b"(3"), true), "abc");
            assert_eq!(of(Bounds::scores(b"3", b"2"), false), "");
            assert_eq!(of(Bounds::texts(b"-", b"[b"), false), "ab");
            assert_eq!(of(Bounds::texts(b"(a", b"+"), false), "bcd");
            assert_eq!(of(Bounds::texts(b"+", b"-"), false), "");
            assert_eq!(of(Ok(Bounds::Ranks(0, 1)), false), "ab");
            assert_eq!(of(Ok(Bounds::Ranks(0, 1)), true), "cd");
            assert_eq!(of(Ok(Bounds::Ranks(-1, 9)), false), "d");
        }
        assert!(Bounds::scores(b"x", b"1").is_err() && Bounds::texts(b"a", b"+").is_err());
    }

    /// No chunk is published here.
    struct NoChunks;

    impl Chunks for NoChunks {
        fn bytes_at(&self, address: u64) -> &[u8] {
            unreachable!("a chunk at {address}")
        }
    }
}
