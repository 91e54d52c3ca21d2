//! Integers as Redis reads and writes them.

/// Parses a 64-bit integer in the one form that Redis takes: no sign but `-`, no leading zero, no blank.
#[inline]
pub fn parse_i64(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [] => return None,
        [b'0'] if !negative => return Some(0),
        [b'1'..=b'9', ..] if digits.len() <= 19 => {}
        _ => return None,
    }
    let mut magnitude = 0u64;
    for &digit in digits {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        // Nineteen digits are below 10^19, which u64 holds.
        magnitude = magnitude * 10 + u64::from(digit);
    }
    if negative { 0i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() }
}

/// A decimal integer on the stack.
#[derive(Clone, Copy, Debug)]
pub struct Decimal {
    bytes: [u8; 20],
    start: u8,
}

impl Decimal {
    /// Writes the number out.
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
    fn parse_takes_only_the_canonical_form() {
        for number in [0, 1, -1, 9, 10, -10, i64::MAX, i64::MIN, i64::MAX - 1, i64::MIN + 1] {
            assert_eq!(parse_i64(number.to_string().as_bytes()), Some(number));
            assert_eq!(Decimal::new(number).as_bytes(), number.to_string().as_bytes());
        }
        for text in [
            "",
            "-",
            "+1",
            " 1",
            "1 ",
            "01",
            "-0",
            "-01",
            "1a",
            "0x1",
            "9223372036854775808",
            "-9223372036854775809",
            "10000000000000000000",
            "99999999999999999999",
            "1.0",
        ] {
            assert_eq!(parse_i64(text.as_bytes()), None, "{text:?}");
        }
    }
}
