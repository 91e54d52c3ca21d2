//! Listpacks: small collections since Redis 7, all elements one after the other.
//!
//! | bytes | what |
//! |---|---|
//! | 4 | all bytes, little-endian |
//! | 2 | how many elements, little-endian; 65,535: that many or more |
//! | any | the elements: each is encoded, then the length of that, to be read from behind |
//! | 1 | 255 |

use crate::error::RestoreError;
use crate::rest::{Rest, Source};
use std::borrow::Cow;

const HEAD_BYTES: usize = 6;
const END: u8 = 0xff;
const COUNT_UNKNOWN: u16 = u16::MAX;

const STRING_6_BITS: u8 = 0x80;
const INTEGER_13_BITS: u8 = 0xc0;
const STRING_12_BITS: u8 = 0xe0;
const STRING_32_BITS: u8 = 0xf0;
const INTEGER_16_BITS: u8 = 0xf1;
const INTEGER_24_BITS: u8 = 0xf2;
const INTEGER_32_BITS: u8 = 0xf3;
const INTEGER_64_BITS: u8 = 0xf4;

/// The listpack of these elements.
pub(crate) fn write<'v>(elements: impl Iterator<Item = &'v [u8]>) -> Vec<u8> {
    let mut out = vec![0; HEAD_BYTES];
    let mut count: usize = 0;
    for element in elements {
        let start = out.len();
        match integer(element) {
            Some(number) => write_integer(number, &mut out),
            None => write_string(element, &mut out),
        }
        write_length_behind(out.len() - start, &mut out);
        count += 1;
    }
    out.push(END);
    let bytes = out.len() as u32;
    out[..4].copy_from_slice(&bytes.to_le_bytes());
    let count = u16::try_from(count).unwrap_or(COUNT_UNKNOWN);
    out[4..HEAD_BYTES].copy_from_slice(&count.to_le_bytes());
    out
}

/// The integer that reads exactly as this text.
fn integer(text: &[u8]) -> Option<i64> {
    const LONGEST: usize = "-9223372036854775808".len();
    if text.is_empty() || text.len() > LONGEST {
        return None;
    }
    let number: i64 = str::from_utf8(text).ok()?.parse().ok()?;
    (number.to_string().as_bytes() == text).then_some(number)
}

fn write_integer(number: i64, out: &mut Vec<u8>) {
    match number {
        0..=127 => out.push(number as u8),
        -4096..=4095 => {
            let [low, high, ..] = number.to_le_bytes();
            out.extend([INTEGER_13_BITS | high & 0x1f, low]);
        }
        -0x8000..=0x7fff => {
            out.push(INTEGER_16_BITS);
            out.extend(&number.to_le_bytes()[..2]);
        }
        -0x80_0000..=0x7f_ffff => {
            out.push(INTEGER_24_BITS);
            out.extend(&number.to_le_bytes()[..3]);
        }
        -0x8000_0000..=0x7fff_ffff => {
            out.push(INTEGER_32_BITS);
            out.extend(&number.to_le_bytes()[..4]);
        }
        _ => {
            out.push(INTEGER_64_BITS);
            out.extend(number.to_le_bytes());
        }
    }
}

fn write_string(bytes: &[u8], out: &mut Vec<u8>) {
    let length = bytes.len();
    if length < 1 << 6 {
        out.push(STRING_6_BITS | length as u8);
    } else if length < 1 << 12 {
        out.extend([STRING_12_BITS | (length >> 8) as u8, length as u8]);
    } else {
        out.push(STRING_32_BITS);
        out.extend((length as u32).to_le_bytes());
    }
    out.extend_from_slice(bytes);
}

/// Groups of seven bits, the highest first; all but the first are marked.
fn write_length_behind(length: usize, out: &mut Vec<u8>) {
    let groups = bytes_behind(length);
    for group in (0..groups).rev() {
        let mark = if group + 1 == groups { 0 } else { 0x80 };
        out.push((length >> (7 * group) & 0x7f) as u8 | mark);
    }
}

/// How many bytes the length of an element takes behind it.
fn bytes_behind(length: usize) -> usize {
    // Redis takes one more byte already for the last length of two, three and four.
    match length {
        0..=0x7f => 1,
        0x80..0x3fff => 2,
        0x3fff..0x1f_ffff => 3,
        0x1f_ffff..0xfff_ffff => 4,
        _ => 5,
    }
}

/// The elements of a listpack.
pub(crate) fn read(bytes: &[u8]) -> Result<Vec<Cow<'_, [u8]>>, RestoreError> {
    let mut rest = Rest::new(bytes);
    let whole = u32::from_le_bytes(rest.array()?) as usize;
    let count = u16::from_le_bytes(rest.array()?);
    if whole != bytes.len() {
        return Err(RestoreError::Damaged);
    }
    let mut elements = Vec::new();
    loop {
        let before = rest.len();
        let first = rest.byte()?;
        if first == END {
            break;
        }
        elements.push(element(first, &mut rest)?);
        let length = before - rest.len();
        let behind = rest.take(bytes_behind(length) as u64)?;
        let mut expected = Vec::new();
        write_length_behind(length, &mut expected);
        if behind != expected {
            return Err(RestoreError::Damaged);
        }
    }
    let is_counted = count == COUNT_UNKNOWN || usize::from(count) == elements.len();
    if rest.is_empty() && is_counted { Ok(elements) } else { Err(RestoreError::Damaged) }
}

fn element<'p>(first: u8, rest: &mut Rest<'p>) -> Result<Cow<'p, [u8]>, RestoreError> {
    let number = match first {
        0..STRING_6_BITS => first.into(),
        STRING_6_BITS..INTEGER_13_BITS => return Ok(Cow::Borrowed(rest.take(u64::from(first & 0x3f))?)),
        INTEGER_13_BITS..STRING_12_BITS => {
            // The sign is the topmost of 13 bits.
            let bits = u16::from_be_bytes([first & 0x1f, rest.byte()?]);
            i64::from((bits << 3) as i16 >> 3)
        }
        STRING_12_BITS..STRING_32_BITS => {
            let length = u16::from_be_bytes([first & 0x0f, rest.byte()?]);
            return Ok(Cow::Borrowed(rest.take(length.into())?));
        }
        STRING_32_BITS => {
            let length = u32::from_le_bytes(rest.array()?);
            return Ok(Cow::Borrowed(rest.take(length.into())?));
        }
        INTEGER_16_BITS => i16::from_le_bytes(rest.array()?).into(),
        INTEGER_24_BITS => {
            let [a, b, c] = rest.array()?;
            i64::from(i32::from_le_bytes([0, a, b, c]) >> 8)
        }
        INTEGER_32_BITS => i32::from_le_bytes(rest.array()?).into(),
        INTEGER_64_BITS => i64::from_le_bytes(rest.array()?),
        _ => return Err(RestoreError::Damaged),
    };
    Ok(Cow::Owned(number.to_string().into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut elements: Vec<Vec<u8>> = Vec::new();
        for edge in [0i64, 127, 4_095, 0x7fff, 0x7f_ffff, 0x7fff_ffff, i64::MAX] {
            for number in
                [edge, edge.wrapping_add(1), -edge, (-edge).wrapping_sub(1), (-edge).wrapping_sub(2)]
            {
                elements.push(number.to_string().into_bytes());
            }
        }
        for length in [0, 1, 63, 64, 4_095, 4_096, 0x3ff0, 0x3ffc, 0x3fff, 0x4000, 0x1f_fff0, 0x20_0000] {
            elements.push(b"x".repeat(length));
        }
        elements.extend(["+1", "-0", "01", "1 ", "9223372036854775808"].map(|text| text.as_bytes().to_vec()));
        let written = write(elements.iter().map(Vec::as_slice));
        assert_eq!(read(&written).unwrap(), elements);
        for cut in (0..written.len()).step_by(997) {
            assert!(read(&written[..cut]).is_err());
        }
    }

    #[test]
    fn damage_is_seen() {
        let written = write([&b"one"[..], b"2", b"three"].into_iter());
        for at in 0..written.len() {
            let mut damaged = written.clone();
            damaged[at] = damaged[at].wrapping_add(0x41);
            // A letter is another letter, and a digit another number.
            let _ = read(&damaged);
        }
        for (at, byte) in [(0, 1), (4, 9), (6, 0xf5), (10, 7), (written.len() - 1, 0)] {
            let mut damaged = written.clone();
            damaged[at] = byte;
            assert!(read(&damaged).is_err(), "{at}");
        }
    }
}
