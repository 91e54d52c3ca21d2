//! Numbers in Redis's format.

use crate::float80::Float80;
use crate::reply_error::ReplyError;

pub use sidle_resp::parse_integer as parse_i64;

/// An integer that may be negated: a count whose sign says from where.
pub(crate) fn parse_signed_count(text: &[u8]) -> Result<i64, ReplyError> {
    match parse_i64(text) {
        None => Err(ReplyError::NotAnInteger),
        Some(i64::MIN) => Err(ReplyError::NO_OPPOSITE),
        Some(count) => Ok(count),
    }
}

/// A number with a fraction: what C's `strtod` reads of the whole text, but for what is no number or too large or small.
pub(crate) fn parse_f64(text: &[u8]) -> Option<f64> {
    let unsigned = text.strip_prefix(b"-").or(text.strip_prefix(b"+")).unwrap_or(text);
    let is_infinity = [&b"inf"[..], b"infinity"].iter().any(|word| unsigned.eq_ignore_ascii_case(word));
    if unsigned.first().is_none_or(|first| !first.is_ascii_digit() && *first != b'.') && !is_infinity {
        return None;
    }
    if unsigned.len() > 1 && unsigned[1].eq_ignore_ascii_case(&b'x') {
        return Float80::parse(text).and_then(Float80::to_f64);
    }
    let number: f64 = str::from_utf8(text).ok()?.parse().ok()?;
    let has_digits = || {
        let mantissa = unsigned.split(|byte| byte.eq_ignore_ascii_case(&b'e')).next().unwrap_or_default();
        mantissa.iter().any(|byte| (b'1'..=b'9').contains(byte))
    };
    let is_in_range = is_infinity || number.is_finite() && (number != 0.0 || !has_digits());
    is_in_range.then_some(number)
}

/// A decimal integer on the stack.
#[derive(Clone, Copy, Debug)]
pub struct Decimal {
    bytes: [u8; 20],
    start: u8,
}

impl Decimal {
    /// Formats the number.
    #[inline]
    pub fn new(number: i64) -> Decimal {
        let mut bytes = [0; 20];
        let mut start = bytes.len();
        let mut rest = number.unsigned_abs();
        loop {
            start -= 1;
            bytes[start] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        if number < 0 {
            start -= 1;
            bytes[start] = b'-';
        }
        Decimal { bytes, start: start as u8 }
    }

    /// The digits.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[self.start as usize..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimal_writes_every_length() {
        for number in [0, 1, -1, 9, 10, -10, i64::MAX, i64::MIN, i64::MAX - 1, i64::MIN + 1] {
            assert_eq!(Decimal::new(number).as_bytes(), number.to_string().as_bytes());
        }
    }

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
}
