//! INCRBYFLOAT's numbers: x86's 80-bit floating point, which Redis uses there.
//!
//! A 64-bit `f64` would print other digits (0.1 + 0.2 is 0.3 in Redis), and so would exact decimals (Redis
//! rounds to 64 bits of mantissa). So integers emulate the format: text to number with one rounding, a sum
//! with one rounding, number to text with 17 decimals. Rounding is to nearest, ties to even.

use crate::natural::Natural;

/// Longer texts are no numbers, as in Redis.
const LONGEST_TEXT_BYTES: usize = 5119;
/// The exponent of the smallest number.
const LOWEST_EXPONENT: i32 = -16445;
/// The exponent of the largest numbers' lowest bit.
const HIGHEST_EXPONENT: i32 = 16383 - 63;
/// Powers of ten beyond these are infinite or zero, whatever digits the longest text puts before them.
const DECIMAL_EXPONENT_LIMIT: i64 = LONGEST_TEXT_BYTES as i64 + 5000;
/// Decimals printed, before trailing zeros are dropped.
const DECIMALS: u32 = 17;

/// An 80-bit number: `mantissa * 2^exponent`, with a separate sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Float80 {
    /// A finite number; the mantissa's highest bit is set, except at the lowest exponent and for zero.
    Finite { negative: bool, mantissa: u64, exponent: i32 },
    /// Beyond the largest number.
    Infinite { negative: bool },
    /// Infinity minus infinity.
    NotANumber,
}

impl Float80 {
    /// Zero.
    pub(crate) const ZERO: Float80 =
        Float80::Finite { negative: false, mantissa: 0, exponent: LOWEST_EXPONENT };

    /// Parses what C's `strtold` does, the whole text without blanks: decimals, hexadecimals, infinities. NaN
    /// is refused, and so are overflow and underflow.
    pub(crate) fn parse(text: &[u8]) -> Option<Float80> {
        if text.is_empty() || text.len() > LONGEST_TEXT_BYTES {
            return None;
        }
        let (negative, unsigned) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            rest => (false, rest),
        };
        if unsigned.eq_ignore_ascii_case(b"inf") || unsigned.eq_ignore_ascii_case(b"infinity") {
            return Some(Float80::Infinite { negative });
        }
        let hexadecimal = unsigned.len() > 2 && unsigned[..2].eq_ignore_ascii_case(b"0x");
        let number = if hexadecimal {
            let scanned = Scanned::of(&unsigned[2..], 16, b'p')?;
            round_ratio(negative, scanned.digits, Natural::from(1), scanned.exponent as i32)
        } else {
            let scanned = Scanned::of(unsigned, 10, b'e')?;
            let power = Natural::power_of_ten(scanned.exponent.unsigned_abs() as u32);
            if scanned.exponent >= 0 {
                round_ratio(negative, scanned.digits.times(&power), Natural::from(1), 0)
            } else {
                round_ratio(negative, scanned.digits, power, 0)
            }
        };
        let nothing = matches!(number, Float80::Finite { mantissa: 0, .. });
        let all_zeros = || {
            let digits = unsigned.iter().skip(if hexadecimal { 2 } else { 0 });
            let mark = if hexadecimal { b'p' } else { b'e' };
            digits
                .take_while(|byte| byte.to_ascii_lowercase() != mark)
                .all(|byte| matches!(byte, b'0' | b'.'))
        };
        match number {
            Float80::Finite { .. } if !nothing || all_zeros() => Some(number),
            _ => None,
        }
    }

    /// Whether it is neither infinite nor no number.
    pub(crate) fn is_finite(self) -> bool {
        matches!(self, Float80::Finite { .. })
    }

    /// The nearest double, rounded once more; `None` beyond the largest, and for no number.
    pub(crate) fn to_f64(self) -> Option<f64> {
        match self {
            Float80::Finite { negative, mantissa, exponent } => {
                let size = mantissa as f64 * f64::powi(2.0, exponent);
                let is_in_range = size.is_finite() && (size != 0.0 || mantissa == 0);
                is_in_range.then_some(if negative { -size } else { size })
            }
            Float80::Infinite { negative } => Some(if negative { f64::NEG_INFINITY } else { f64::INFINITY }),
            Float80::NotANumber => None,
        }
    }

    /// The sum, rounded once.
    pub(crate) fn plus(self, other: Float80) -> Float80 {
        use Float80::{Finite, Infinite, NotANumber};
        match (self, other) {
            (Infinite { negative: one }, Infinite { negative: two }) if one != two => NotANumber,
            (Infinite { .. }, _) => self,
            (_, Infinite { .. }) => other,
            (NotANumber, _) | (_, NotANumber) => NotANumber,
            (Finite { mantissa: 0, .. }, _) => other,
            (_, Finite { mantissa: 0, .. }) => self,
            (
                Finite { negative: n1, mantissa: m1, exponent: e1 },
                Finite { negative: n2, mantissa: m2, exponent: e2 },
            ) => {
                let (high, low) =
                    if e1 >= e2 { ((n1, m1, e1), (n2, m2, e2)) } else { ((n2, m2, e2), (n1, m1, e1)) };
                sum(high, low)
            }
        }
    }

    /// The number in decimals, 17 after the point, without trailing zeros; `None` if it is not finite.
    pub(crate) fn to_decimal(self) -> Option<String> {
        let Float80::Finite { negative, mantissa, exponent } = self else { return None };
        let (whole, fraction) = match exponent {
            0.. => (Natural::from(mantissa).shifted_left(exponent as u32).to_decimal(), 0),
            -63..0 => split(mantissa, exponent.unsigned_abs()),
            _ => ("0".to_owned(), small_fraction(mantissa, exponent.unsigned_abs())),
        };
        let (whole, fraction) = carry(whole, fraction);
        let decimals = format!("{fraction:017}");
        let decimals = decimals.trim_end_matches('0');
        let point = if decimals.is_empty() { "" } else { "." };
        let sign = if negative && (whole != "0" || !decimals.is_empty()) { "-" } else { "" };
        Some(format!("{sign}{whole}{point}{decimals}"))
    }
}

/// Splits `mantissa * 2^-places`, for 1 to 63 places, into its whole part and 17 rounded decimals.
fn split(mantissa: u64, places: u32) -> (String, u64) {
    let whole = mantissa >> places;
    let fraction = mantissa & ((1 << places) - 1);
    (whole.to_string(), small_fraction(fraction, places))
}

/// The 17 decimals of `mantissa * 2^-places`, a number below one; 10^17 if they round up to one.
fn small_fraction(mantissa: u64, places: u32) -> u64 {
    // 64 bits times 57 bits: the product is exact. From 2^-122 on it is less than half of the last decimal.
    let product = u128::from(mantissa) * 10u128.pow(DECIMALS);
    if places > 122 {
        return 0;
    }
    let (quotient, rest) = (product >> places, product & ((1 << places) - 1));
    let half = 1u128 << (places - 1);
    let up = rest > half || rest == half && quotient & 1 == 1;
    quotient as u64 + u64::from(up)
}

/// Carries a fraction that rounded up to one into the whole part.
fn carry(whole: String, fraction: u64) -> (String, u64) {
    if fraction < 10u64.pow(DECIMALS) {
        return (whole, fraction);
    }
    let whole: u64 = whole.parse().expect("only numbers below 2^64 have a fraction");
    ((u128::from(whole) + 1).to_string(), 0)
}

/// Adds two numbers; `high` has the larger exponent, or the same.
fn sum(high: (bool, u64, i32), low: (bool, u64, i32)) -> Float80 {
    // The higher number is shifted up by 62 places, so that 62 bits of the lower remain. Lost bits are
    // recorded in the last one, which suffices for every rounding. The result's highest set bit is at place
    // 60 or above unless the exponents are so close that no bit is lost.
    const ROOM: i32 = 62;
    let (wide, wide_exponent) = (u128::from(high.1) << ROOM, high.2 - ROOM);
    let distance = (high.2 - low.2).unsigned_abs();
    let narrow = shift_right_sticky(u128::from(low.1) << ROOM, distance);
    let (negative, magnitude) = if high.0 == low.0 {
        (high.0, wide + narrow)
    } else if wide >= narrow {
        (high.0, wide - narrow)
    } else {
        (low.0, narrow - wide)
    };
    if magnitude == 0 {
        return Float80::ZERO;
    }
    round(negative, magnitude, wide_exponent, false)
}

/// Shifts right; any lost bit sets the lowest one.
fn shift_right_sticky(number: u128, places: u32) -> u128 {
    match places {
        0 => number,
        1..=127 => number >> places | u128::from(number & ((1 << places) - 1) != 0),
        _ => u128::from(number != 0),
    }
}

/// The number nearest to `magnitude * 2^exponent`; `sticky`: slightly more than that.
fn round(negative: bool, magnitude: u128, exponent: i32, sticky: bool) -> Float80 {
    let length = 128 - magnitude.leading_zeros() as i32;
    let drop = (length - 64).max(LOWEST_EXPONENT - exponent);
    if drop <= 0 {
        // Fits; shift up to the format's normal form.
        let up = (-drop).min(exponent - LOWEST_EXPONENT);
        return finite(negative, (magnitude as u64) << up, exponent - up);
    }
    let (kept, rest, half) = match drop {
        1..=127 => (magnitude >> drop, magnitude & ((1 << drop) - 1), 1u128 << (drop - 1)),
        _ => (0, 1, 2),
    };
    let up = rest > half || rest == half && (sticky || kept & 1 == 1);
    let kept = kept + u128::from(up);
    if kept >> 64 != 0 {
        finite(negative, (kept >> 1) as u64, exponent + drop + 1)
    } else {
        finite(negative, kept as u64, exponent + drop)
    }
}

fn finite(negative: bool, mantissa: u64, exponent: i32) -> Float80 {
    if exponent > HIGHEST_EXPONENT && mantissa != 0 {
        return Float80::Infinite { negative };
    }
    Float80::Finite { negative, mantissa, exponent }
}

/// The number nearest to `numerator / denominator * 2^exponent`.
fn round_ratio(negative: bool, numerator: Natural, denominator: Natural, exponent: i32) -> Float80 {
    if numerator.is_zero() {
        return Float80::Finite { negative, mantissa: 0, exponent: LOWEST_EXPONENT };
    }
    // Scaled to a quotient of 66 or 67 bits: two or three more than the mantissa.
    let scale = 66 - (numerator.bits() as i32 - denominator.bits() as i32);
    let (numerator, denominator) = if scale >= 0 {
        (numerator.shifted_left(scale as u32), denominator)
    } else {
        (numerator, denominator.shifted_left(scale.unsigned_abs()))
    };
    let (quotient, exact) = numerator.divided_by(&denominator);
    round(negative, quotient, exponent - scale, !exact)
}

/// A text's digits as one integer, and its exponent.
struct Scanned {
    digits: Natural,
    /// The exponent of ten, or of two for hexadecimals; clamped where it no longer matters.
    exponent: i64,
}

impl Scanned {
    fn of(text: &[u8], base: u32, mark: u8) -> Option<Scanned> {
        let mut digits = Natural::from(0);
        let (mut seen, mut behind_point, mut point) = (0, 0, false);
        let mut rest = text;
        while let [byte, tail @ ..] = rest {
            if *byte == b'.' && !point {
                point = true;
            } else if let Some(digit) = char::from(*byte).to_digit(base) {
                digits.multiply_add(base, digit);
                seen += 1;
                behind_point += i64::from(point);
            } else {
                break;
            }
            rest = tail;
        }
        if seen == 0 {
            return None;
        }
        let written = match rest {
            [] => 0,
            [byte, tail @ ..] if byte.to_ascii_lowercase() == mark => written_exponent(tail)?,
            _ => return None,
        };
        if base == 16 {
            let limit = i64::from(-LOWEST_EXPONENT) + 4 * LONGEST_TEXT_BYTES as i64;
            return Some(Scanned { digits, exponent: (written - 4 * behind_point).clamp(-limit, limit) });
        }
        let exponent = (written - behind_point).clamp(-DECIMAL_EXPONENT_LIMIT, DECIMAL_EXPONENT_LIMIT);
        Some(Scanned { digits, exponent })
    }
}

fn written_exponent(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let magnitude =
        digits.iter().fold(0i64, |sum, digit| (sum * 10 + i64::from(digit - b'0')).min(i64::from(i32::MAX)));
    Some(if negative { -magnitude } else { magnitude })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum_of(one: &str, two: &str) -> Option<String> {
        Float80::parse(one.as_bytes())?.plus(Float80::parse(two.as_bytes())?).to_decimal()
    }

    /// Every sum was taken from redis-server 7.0.15 on x86-64.
    #[test]
    fn plus_prints_as_redis_does() {
        for (one, two, expected) in [
            ("0", "0", "0"),
            ("0.1", "0.2", "0.3"),
            ("10.50", "0.1", "10.6"),
            ("5.0e3", "2.0e2", "5200"),
            ("3", "-3", "0"),
            ("-0", "0", "0"),
            ("1", "0x10", "17"),
            ("+1.5", ".5", "2"),
            ("1.", "0", "1"),
        ] {
            assert_eq!(sum_of(one, two).as_deref(), Some(expected), "{one} + {two}");
        }
        assert_eq!(sum_of("inf", "1"), None);
        assert_eq!(sum_of("inf", "-inf"), None);
    }

    #[test]
    fn parse_refuses_what_is_no_number() {
        for text in [
            "", " 1", "1 ", "a", "1e", "1e+", ".", "-", "0x", "0xg", "nan", "1e5000", "1e-5000", "1,5",
            "1..2", "--1",
        ] {
            assert_eq!(Float80::parse(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(Float80::parse(&[b'1'; 5120]), None);
        assert!(Float80::parse(&[b'1'; 4900]).is_some());
    }

    #[test]
    fn integers_are_exact_below_64_bits() {
        for number in [1u64, 9, 10, 99_999_999, u64::MAX, 1 << 63, 12_345_678_901_234_567_890] {
            let text = number.to_string();
            assert_eq!(Float80::parse(text.as_bytes()).and_then(Float80::to_decimal), Some(text));
        }
    }
}
