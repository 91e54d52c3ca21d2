//! Integers in Redis's format.

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

/// An integer of 32 bits: the number of a database.
pub fn parse_i32(text: &[u8]) -> Result<i32, ReplyError> {
    let number = parse_i64(text).ok_or(ReplyError::NotAnInteger)?;
    i32::try_from(number).map_err(|_| {
        ReplyError::text("ERR value is out of range, value must between -2147483648 and 2147483647")
    })
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
}
