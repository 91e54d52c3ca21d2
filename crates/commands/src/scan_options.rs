//! The cursor and the options of walks: SCAN and HSCAN.

use crate::glob;
use crate::number::parse_i64;
use crate::reply_error::ReplyError;
use sidle_types::ValueKind;

/// How many elements are visited without COUNT.
const DEFAULT_COUNT: usize = 10;

/// What a walk asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanOptions<'a> {
    /// About how many elements to visit.
    pub count: usize,
    /// MATCH, unless it matches everything.
    pattern: Option<&'a [u8]>,
}

impl<'a> ScanOptions<'a> {
    /// The cursor that a text names.
    ///
    /// # Errors
    /// It names none.
    pub fn cursor(text: &[u8]) -> Result<u64, ReplyError> {
        parse_cursor(text).ok_or(ReplyError::text("ERR invalid cursor"))
    }

    /// The options of a walk over a collection.
    pub(crate) fn parse(options: &[&'a [u8]]) -> Result<ScanOptions<'a>, ReplyError> {
        let (parsed, kind) = ScanOptions::parse_with_type(options)?;
        if kind.is_some() { Err(ReplyError::Syntax) } else { Ok(parsed) }
    }

    /// The options of a walk over keys, and the name that TYPE gives.
    ///
    /// # Errors
    /// An option is malformed.
    pub fn parse_with_type(
        mut options: &[&'a [u8]],
    ) -> Result<(ScanOptions<'a>, Option<&'a [u8]>), ReplyError> {
        let mut parsed = ScanOptions { count: DEFAULT_COUNT, pattern: None };
        let mut kind = None;
        while let [option, value, rest @ ..] = options {
            options = rest;
            match option.to_ascii_lowercase().as_slice() {
                b"count" => {
                    let count = parse_i64(value).ok_or(ReplyError::NotAnInteger)?;
                    if count < 1 {
                        return Err(ReplyError::Syntax);
                    }
                    parsed.count = usize::try_from(count).unwrap_or(usize::MAX);
                }
                b"match" => parsed.pattern = Some(*value).filter(|pattern| *pattern != b"*"),
                b"type" => kind = Some(*value),
                _ => return Err(ReplyError::Syntax),
            }
        }
        if options.is_empty() { Ok((parsed, kind)) } else { Err(ReplyError::Syntax) }
    }

    /// Whether MATCH lets it through.
    #[inline]
    pub fn wants(&self, element: &[u8]) -> bool {
        self.pattern.is_none_or(|pattern| glob::matches(pattern, element))
    }
}

/// The type that TYPE names: `None` for one that no value here has.
pub fn kind_named(name: &[u8]) -> Option<ValueKind> {
    ValueKind::ALL.into_iter().find(|kind| name.eq_ignore_ascii_case(kind.name().as_bytes()))
}

/// A cursor as C's `strtoul` reads it, like Redis: a sign may precede it, and no text is 0.
fn parse_cursor(text: &[u8]) -> Option<u64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    if digits.is_empty() {
        return text.is_empty().then_some(0);
    }
    let number = digits.iter().try_fold(0u64, |sum, &byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        sum.checked_mul(10)?.checked_add(digit)
    })?;
    Some(if negative { number.wrapping_neg() } else { number })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_cursor_reads_as_strtoul_does() {
        for (text, cursor) in [
            ("0", Some(0)),
            ("", Some(0)),
            ("007", Some(7)),
            ("+7", Some(7)),
            ("-1", Some(u64::MAX)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("-", None),
            (" 1", None),
            ("1 ", None),
            ("x", None),
            ("1x", None),
        ] {
            assert_eq!(parse_cursor(text.as_bytes()), cursor, "{text:?}");
        }
    }

    #[test]
    fn options_are_read_in_pairs() {
        let parse = |options: &'static str| {
            let options: Vec<&[u8]> = options.split_whitespace().map(str::as_bytes).collect();
            ScanOptions::parse(&options)
        };
        for bad in ["count", "count 0", "match", "foo 1", "type hash", "novalues"] {
            assert_eq!(parse(bad), Err(ReplyError::Syntax), "{bad}");
        }
        assert_eq!(parse("count x"), Err(ReplyError::NotAnInteger));
        let options = parse("COUNT 5 Match a*").unwrap();
        assert_eq!((options.count, options.wants(b"ab"), options.wants(b"b")), (5, true, false));
        assert!(parse("match *").unwrap().wants(b"anything"));
        assert_eq!(kind_named(b"ZSET"), Some(ValueKind::SortedSet));
        assert_eq!(kind_named(b"stream"), None);
    }
}
