//! Doubles as C's `strtod` reads them from a whole text, with what Redis refuses of them: less for bounds
//! than for scores.

use crate::float80::Float80;

/// What is read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Read {
    /// No NaN.
    pub(crate) number: f64,
    /// Whether the text's number is neither too large for a double nor too small.
    is_in_range: bool,
}

impl Read {
    /// The number, unless only fewer digits than usual are left of it.
    pub(crate) fn precise(self) -> Option<f64> {
        (self.is_in_range && !self.number.is_subnormal()).then_some(self.number)
    }
}

/// A number: spaces may precede it, a zero byte ends the text, and no text is 0.
pub(crate) fn read(text: &[u8]) -> Option<Read> {
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    if text.is_empty() {
        return Some(Read { number: 0.0, is_in_range: true });
    }
    let start = text.iter().position(|byte| !is_space(*byte))?;
    read_exactly(&text[start..])
}

/// A score or a weight, which is nothing but a number.
pub(crate) fn parse_f64(text: &[u8]) -> Option<f64> {
    read_exactly(text).filter(|read| read.is_in_range).map(|read| read.number)
}

const fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

fn read_exactly(text: &[u8]) -> Option<Read> {
    let unsigned = text.strip_prefix(b"-").or(text.strip_prefix(b"+")).unwrap_or(text);
    let is_infinity = [&b"inf"[..], b"infinity"].iter().any(|word| unsigned.eq_ignore_ascii_case(word));
    if unsigned.first().is_none_or(|first| !first.is_ascii_digit() && *first != b'.') && !is_infinity {
        return None;
    }
    if unsigned.len() > 1 && unsigned[1].eq_ignore_ascii_case(&b'x') {
        let number = Float80::parse(text).and_then(Float80::to_f64)?;
        return Some(Read { number, is_in_range: true });
    }
    let number: f64 = str::from_utf8(text).ok()?.parse().ok()?;
    let has_digits = || {
        let mantissa = unsigned.split(|byte| byte.eq_ignore_ascii_case(&b'e')).next().unwrap_or_default();
        mantissa.iter().any(|byte| (b'1'..=b'9').contains(byte))
    };
    let is_in_range = is_infinity || number.is_finite() && (number != 0.0 || !has_digits());
    Some(Read { number, is_in_range })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_f64_reads_as_strtod_does() {
        for (text, number) in [
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
            assert_eq!(parse_f64(text.as_bytes()), number, "{text:?}");
        }
    }

    #[test]
    fn read_takes_what_surrounds_a_number() {
        for (text, number, precise) in [
            ("", Some(0.0), true),
            ("\0x", Some(0.0), true),
            ("2\0x", Some(2.0), true),
            (" \t\x0b2", Some(2.0), true),
            ("1e400", Some(f64::INFINITY), false),
            ("-1e400", Some(f64::NEG_INFINITY), false),
            ("1e-400", Some(0.0), false),
            ("1e-310", Some(1e-310), false),
            ("-inf", Some(f64::NEG_INFINITY), true),
            (" ", None, false),
            ("2 ", None, false),
            ("nan", None, false),
            ("x", None, false),
        ] {
            let read = read(text.as_bytes());
            assert_eq!(read.map(|read| read.number), number, "{text:?}");
            assert_eq!(read.and_then(Read::precise), number.filter(|_| precise), "{text:?}");
        }
    }
}
