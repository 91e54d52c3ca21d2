//! Strings: bytes, integers and compressed bytes.

use crate::error::RestoreError;
use crate::length::{self, Length};
use crate::lzf;
use crate::rest::{Rest, Source};
use std::borrow::Cow;

const INT8: u8 = 0;
const INT16: u8 = 1;
const INT32: u8 = 2;
const LZF: u8 = 3;

/// How a string that is not its bytes is written.
pub(crate) enum Encoding {
    /// As an integer of so many bytes.
    Integer(u64),
    /// As two lengths and as many bytes as the first of them.
    Compressed,
}

impl Encoding {
    /// The one of this number.
    pub(crate) fn numbered(number: u8) -> Option<Encoding> {
        Some(match number {
            INT8 => Encoding::Integer(1),
            INT16 => Encoding::Integer(2),
            INT32 => Encoding::Integer(4),
            LZF => Encoding::Compressed,
            _ => return None,
        })
    }
}

/// The longest integer that is encoded as one.
const INTEGER_BYTES: usize = "-2147483648".len();

/// The integer that reads exactly as this text, if it fits 32 bits.
fn integer(text: &[u8]) -> Option<i32> {
    if text.len() > INTEGER_BYTES {
        return None;
    }
    let number: i32 = str::from_utf8(text).ok()?.parse().ok()?;
    (number.to_string().as_bytes() == text).then_some(number)
}

/// Adds the front of a string; the rest of it, if any, is returned.
pub(crate) fn write_front<'v>(value: &'v [u8], out: &mut Vec<u8>) -> &'v [u8] {
    let Some(number) = integer(value) else {
        length::write(value.len() as u64, out);
        return value;
    };
    if let Ok(number) = i8::try_from(number) {
        length::write_encoding(INT8, out);
        out.extend(number.to_le_bytes());
    } else if let Ok(number) = i16::try_from(number) {
        length::write_encoding(INT16, out);
        out.extend(number.to_le_bytes());
    } else {
        length::write_encoding(INT32, out);
        out.extend(number.to_le_bytes());
    }
    &[]
}

/// Reads a string of at most `most_bytes`.
pub(crate) fn read<'p>(rest: &mut Rest<'p>, most_bytes: u64) -> Result<Cow<'p, [u8]>, RestoreError> {
    let encoding = match Length::read(rest)? {
        Length::Bytes(bytes) => {
            let value = rest.take(bytes)?;
            check(bytes, most_bytes)?;
            return Ok(Cow::Borrowed(value));
        }
        Length::Encoded(encoding) => encoding,
    };
    let number = match encoding {
        INT8 => i8::from_le_bytes(rest.array()?).into(),
        INT16 => i16::from_le_bytes(rest.array()?).into(),
        INT32 => i32::from_le_bytes(rest.array()?),
        LZF => {
            let compressed_bytes = Length::read_bytes(rest)?;
            let bytes = Length::read_bytes(rest)?;
            let compressed = rest.take(compressed_bytes)?;
            check(bytes, most_bytes)?;
            let bytes = usize::try_from(bytes).map_err(|_| RestoreError::TooLong)?;
            return lzf::decompressed(compressed, bytes).map(Cow::Owned).ok_or(RestoreError::Compression);
        }
        other => return Err(RestoreError::UnknownEncoding(other)),
    };
    let text = number.to_string().into_bytes();
    check(text.len() as u64, most_bytes)?;
    Ok(Cow::Owned(text))
}

fn check(bytes: u64, most_bytes: u64) -> Result<(), RestoreError> {
    if bytes > most_bytes { Err(RestoreError::TooLong) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn write_front_encodes_exact_integers() {
        let front = |value: &str| {
            let mut out = Vec::new();
            let rest = write_front(value.as_bytes(), &mut out);
            assert!(rest.is_empty() || rest == value.as_bytes());
            out
        };
        for (value, expected) in [
            ("0", &[0xc0, 0][..]),
            ("-128", &[0xc0, 0x80]),
            ("127", &[0xc0, 0x7f]),
            ("128", &[0xc1, 0x80, 0]),
            ("-32768", &[0xc1, 0, 0x80]),
            ("32768", &[0xc2, 0, 0x80, 0, 0]),
            ("2147483647", &[0xc2, 0xff, 0xff, 0xff, 0x7f]),
            ("-2147483648", &[0xc2, 0, 0, 0, 0x80]),
            ("2147483648", &[10]),
            ("-2147483649", &[11]),
            ("", &[0]),
            ("-0", &[2]),
            ("+1", &[2]),
            ("01", &[2]),
            ("1 ", &[2]),
            ("abc", &[3]),
        ] {
            assert_eq!(front(value), expected, "{value}");
        }
    }
}
