//! Decimal integers: parsed as strictly as Redis does, and cheap to write in headers.

/// The longest decimal `i64`, sign included.
const LONGEST: usize = 20;

/// Parses a 64-bit integer like Redis's `string2ll`: an optional `-`, then digits without leading zeros; no
/// `+`, no spaces, no `-0`.
#[inline]
pub fn parse_integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [] => return None,
        [b'0', ..] => return if negative || digits.len() > 1 { None } else { Some(0) },
        _ if digits.len() > LONGEST - 1 => return None,
        _ => {}
    }
    let mut magnitude = 0u64;
    for &digit in digits {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        // At most 19 digits: this cannot overflow 64 bits.
        magnitude = magnitude * 10 + u64::from(digit);
    }
    if negative {
        (magnitude <= i64::MIN.unsigned_abs()).then_some((magnitude as i64).wrapping_neg())
    } else {
        i64::try_from(magnitude).ok()
    }
}

/// The most digits that [`quick_length`] reads: such a number never overflows a `u32`.
const QUICK_DIGITS: usize = 9;

/// Parses a plain length at the start of `rest`; returns it with the bytes it takes, line end included.
/// `None` for anything else, errors and cut-off numbers included: the slow path handles those.
#[inline(always)]
pub(crate) fn quick_length(rest: &[u8]) -> Option<(usize, usize)> {
    let mut number = usize::from(rest.first()?.wrapping_sub(b'0'));
    if number > 9 {
        return None;
    }
    let mut at = 1;
    loop {
        let byte = *rest.get(at)?;
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return (byte == b'\r' && at + 1 < rest.len()).then_some((number, at + 2));
        }
        if number == 0 || at == QUICK_DIGITS {
            return None;
        }
        number = number * 10 + usize::from(digit);
        at += 1;
    }
}

/// Appends `prefix`, the number and CRLF.
#[inline]
pub(crate) fn append_header(out: &mut Vec<u8>, prefix: u8, number: u64) {
    // Nearly every header is a short length: one bounds check and one copy.
    if number < 10 {
        out.extend_from_slice(&[prefix, b'0' + number as u8, b'\r', b'\n']);
    } else if number < 100 {
        out.extend_from_slice(&[
            prefix,
            b'0' + (number / 10) as u8,
            b'0' + (number % 10) as u8,
            b'\r',
            b'\n',
        ]);
    } else {
        append_line(out, prefix, false, number);
    }
}

/// Appends `:`, a signed number and CRLF.
#[inline]
pub(crate) fn append_integer(out: &mut Vec<u8>, number: i64) {
    if number >= 0 {
        append_header(out, b':', number as u64);
    } else {
        append_line(out, b':', true, number.unsigned_abs());
    }
}

fn append_line(out: &mut Vec<u8>, prefix: u8, negative: bool, mut magnitude: u64) {
    let mut line = [0u8; 1 + LONGEST + 1 + 2];
    let mut at = line.len() - 2;
    line[at] = b'\r';
    line[at + 1] = b'\n';
    loop {
        at -= 1;
        line[at] = b'0' + (magnitude % 10) as u8;
        magnitude /= 10;
        if magnitude == 0 {
            break;
        }
    }
    if negative {
        at -= 1;
        line[at] = b'-';
    }
    at -= 1;
    line[at] = prefix;
    out.extend_from_slice(&line[at..]);
}

/// Parses a double: `inf`, `-inf`, `nan`, or decimal with or without an exponent.
pub(crate) fn parse_double(line: &[u8]) -> Option<f64> {
    std::str::from_utf8(line).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_integer_is_as_strict_as_redis() {
        for (text, number) in [
            ("0", Some(0)),
            ("7", Some(7)),
            ("-1", Some(-1)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("-9223372036854775809", None),
            ("99999999999999999999", None),
            ("", None),
            ("-", None),
            ("-0", None),
            ("00", None),
            ("01", None),
            ("+1", None),
            (" 1", None),
            ("1 ", None),
            ("1a", None),
        ] {
            assert_eq!(parse_integer(text.as_bytes()), number, "{text:?}");
        }
    }

    #[test]
    fn headers_and_integers_of_every_length() {
        for number in [0u64, 1, 9, 10, 42, 99, 100, 101, 65_536, u64::MAX] {
            let mut out = Vec::new();
            append_header(&mut out, b'$', number);
            assert_eq!(out, format!("${number}\r\n").into_bytes());
        }
        for number in [0i64, 5, -5, -10, 12_345, i64::MAX, i64::MIN] {
            let mut out = Vec::new();
            append_integer(&mut out, number);
            assert_eq!(out, format!(":{number}\r\n").into_bytes());
            assert_eq!(parse_integer(&out[1..out.len() - 2]), Some(number));
        }
    }
}
