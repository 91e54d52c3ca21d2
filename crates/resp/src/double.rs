//! Doubles as Redis 7.0 prints them: C's `%.17g`.

/// Significant digits of `%.17g`: enough to distinguish any two doubles.
const SIGNIFICANT_DIGITS: i32 = 17;

/// Appends a double as Redis 7.0 prints it: `inf`, `-inf`, `nan`, `-0`, `3`, `0.10000000000000001`, `1e+20`.
pub fn format_double(number: f64, out: &mut Vec<u8>) {
    if number.is_nan() {
        out.extend_from_slice(b"nan");
        return;
    }
    if number.is_infinite() {
        out.extend_from_slice(if number > 0.0 { b"inf" } else { b"-inf" });
        return;
    }
    if number == 0.0 {
        out.extend_from_slice(if number.is_sign_negative() { b"-0" } else { b"0" });
        return;
    }
    // Rust rounds `{:.16e}` correctly, as glibc does: one digit, a point, sixteen digits, `e`, the exponent.
    let scientific = format!("{number:.16e}");
    let (mantissa, exponent) = scientific.split_once('e').expect("scientific notation has an exponent");
    let exponent: i32 = exponent.parse().expect("the exponent of a double is a small integer");
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa),
    };
    let digits: Vec<u8> = mantissa.bytes().filter(u8::is_ascii_digit).collect();
    let kept = digits.iter().rposition(|&digit| digit != b'0').map_or(1, |last| last + 1);
    let digits = &digits[..kept];

    out.extend_from_slice(sign.as_bytes());
    if (-4..SIGNIFICANT_DIGITS).contains(&exponent) {
        append_fixed(digits, exponent, out);
    } else {
        append_scientific(digits, exponent, out);
    }
}

fn append_fixed(digits: &[u8], exponent: i32, out: &mut Vec<u8>) {
    if exponent < 0 {
        out.extend_from_slice(b"0.");
        out.extend(std::iter::repeat_n(b'0', (-exponent - 1) as usize));
        out.extend_from_slice(digits);
        return;
    }
    let whole = exponent as usize + 1;
    if digits.len() <= whole {
        out.extend_from_slice(digits);
        out.extend(std::iter::repeat_n(b'0', whole - digits.len()));
    } else {
        out.extend_from_slice(&digits[..whole]);
        out.push(b'.');
        out.extend_from_slice(&digits[whole..]);
    }
}

fn append_scientific(digits: &[u8], exponent: i32, out: &mut Vec<u8>) {
    out.push(digits[0]);
    if digits.len() > 1 {
        out.push(b'.');
        out.extend_from_slice(&digits[1..]);
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    out.extend_from_slice(format!("e{sign}{:02}", exponent.abs()).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The output of C's `%.17g`, and so of redis-server 7.0.15.
    #[test]
    fn doubles_print_as_redis_prints_them() {
        for (number, text) in [
            (3.0, "3"),
            (100.0, "100"),
            (0.0, "0"),
            (-0.0, "-0"),
            (1.5, "1.5"),
            (0.1, "0.10000000000000001"),
            (1.0 / 3.0, "0.33333333333333331"),
            (1.23456789, "1.2345678899999999"),
            (3.25159, "3.2515900000000002"),
            (12345.678, "12345.678"),
            (0.0001, "0.0001"),
            (1e-5, "1.0000000000000001e-05"),
            (1e-7, "9.9999999999999995e-08"),
            (1.5e-6, "1.5e-06"),
            (1.5e-10, "1.5e-10"),
            (1e15, "1000000000000000"),
            (1e17, "1e+17"),
            (1e20, "1e+20"),
            (123456789012345680000.0, "1.2345678901234568e+20"),
            (1e100, "1e+100"),
            (5e-324, "4.9406564584124654e-324"),
            (f64::MAX, "1.7976931348623157e+308"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
        ] {
            let mut out = Vec::new();
            format_double(number, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), text);
        }
    }
}
