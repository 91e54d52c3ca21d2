//! Scores and bounds as Redis reads them.

use super::super::indices::range_in;
use crate::float80::Float80;
use crate::reply_error::ReplyError;
use sidle_collections::Scored;

/// A score: what C's `strtod` reads of the whole text, but for what is no number or too large or small.
pub(super) fn parse_score(text: &[u8]) -> Option<f64> {
    let unsigned = text.strip_prefix(b"-").or(text.strip_prefix(b"+")).unwrap_or(text);
    let is_infinity = [&b"inf"[..], b"infinity"].iter().any(|word| unsigned.eq_ignore_ascii_case(word));
    if unsigned.first().is_none_or(|first| !first.is_ascii_digit() && *first != b'.') && !is_infinity {
        return None;
    }
    if unsigned.len() > 1 && unsigned[1].eq_ignore_ascii_case(&b'x') {
        return Float80::parse(text).and_then(Float80::to_f64);
    }
    let score: f64 = str::from_utf8(text).ok()?.parse().ok()?;
    let has_digits = || {
        let mantissa = unsigned.split(|byte| byte.eq_ignore_ascii_case(&b'e')).next().unwrap_or_default();
        mantissa.iter().any(|byte| (b'1'..=b'9').contains(byte))
    };
    let is_in_range = is_infinity || score.is_finite() && (score != 0.0 || !has_digits());
    is_in_range.then_some(score)
}

/// The score that a command sets or adds.
pub(super) fn score(text: &[u8]) -> Result<f64, ReplyError> {
    parse_score(text).ok_or(ReplyError::NotAFloat)
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
        Some(ScoreBound { score: parse_score(text)?, is_open })
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

    /// Whether a member is in a range of scores or texts.
    fn admits(&self, (member, score): Scored<'_>) -> bool {
        match self {
            Bounds::Ranks(..) => true,
            Bounds::Scores(low, high) => low.admits_above(score) && high.admits_below(score),
            Bounds::Texts(low, high) => low.admits_above(member) && high.admits_below(member),
        }
    }

    /// The members in the range. Ranks count from the end if `is_reversed`, and the last comes first.
    pub(super) fn of<'b>(&self, members: Vec<Scored<'b>>, is_reversed: bool) -> Vec<Scored<'b>> {
        let mut members = members;
        if is_reversed {
            members.reverse();
        }
        if let Bounds::Ranks(first, last) = *self {
            let range = range_in(members.len(), first, last);
            return members[range].to_vec();
        }
        members.retain(|member| self.admits(*member));
        members
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_read_as_strtod_reads_them() {
        for (text, score) in [
            ("1", Some(1.0)),
            ("-1.5e2", Some(-150.0)),
            (".5", Some(0.5)),
            ("5.", Some(5.0)),
            ("+3", Some(3.0)),
            ("inf", Some(f64::INFINITY)),
            ("-Infinity", Some(f64::NEG_INFINITY)),
            ("0x10", Some(16.0)),
            ("0", Some(0.0)),
            ("0e5", Some(0.0)),
            ("nan", None),
            ("", None),
            (" 1", None),
            ("1 ", None),
            ("1e400", None),
            ("1e-400", None),
            ("1x", None),
            ("--1", None),
        ] {
            assert_eq!(parse_score(text.as_bytes()), score, "{text:?}");
        }
    }

    #[test]
    fn bounds_choose_members() {
        let members: Vec<Scored<'_>> = vec![(b"a", 1.0), (b"b", 2.0), (b"c", 2.0), (b"d", 3.0)];
        let of = |bounds: Result<Bounds<'_>, ReplyError>, reversed: bool| {
            let members = bounds.unwrap().of(members.clone(), reversed);
            members.iter().map(|(member, _)| char::from(member[0])).collect::<String>()
        };
        assert_eq!(of(Bounds::scores(b"2", b"3"), false), "bcd");
        assert_eq!(of(Bounds::scores(b"(2", b"+inf"), false), "d");
        assert_eq!(of(Bounds::scores(b"-inf", b"(3"), true), "cba");
        assert_eq!(of(Bounds::texts(b"-", b"[b"), false), "ab");
        assert_eq!(of(Bounds::texts(b"(a", b"+"), false), "bcd");
        assert_eq!(of(Bounds::texts(b"+", b"-"), false), "");
        assert_eq!(of(Ok(Bounds::Ranks(0, 1)), false), "ab");
        assert_eq!(of(Ok(Bounds::Ranks(0, 1)), true), "dc");
        assert_eq!(of(Ok(Bounds::Ranks(-1, 9)), false), "d");
        assert!(Bounds::scores(b"x", b"1").is_err() && Bounds::texts(b"a", b"+").is_err());
    }
}
