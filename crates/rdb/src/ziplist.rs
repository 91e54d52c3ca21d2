//! Ziplists and zipmaps: small collections until Redis 6, and until Redis 2.4. They are only read.

use crate::error::RestoreError;
use crate::rest::{Rest, Source};
use std::borrow::Cow;

const END: u8 = 0xff;
/// A length of more than a byte follows: of the entry before, or of a string in a zipmap.
const LONG: u8 = 0xfe;

/// The elements of a ziplist: a head of ten bytes; entries, each behind the length of the one before; 255.
pub(crate) fn read(bytes: &[u8]) -> Result<Vec<Cow<'_, [u8]>>, RestoreError> {
    let mut rest = Rest::new(bytes);
    let whole = u32::from_le_bytes(rest.array()?) as usize;
    let _tail = u32::from_le_bytes(rest.array()?);
    let count = u16::from_le_bytes(rest.array()?);
    if whole != bytes.len() {
        return Err(RestoreError::Damaged);
    }
    let (mut elements, mut before_bytes) = (Vec::new(), 0);
    loop {
        let start = rest.len();
        let announced = match rest.byte()? {
            END => break,
            LONG => u32::from_le_bytes(rest.array()?) as usize,
            short => short.into(),
        };
        if announced != before_bytes {
            return Err(RestoreError::Damaged);
        }
        elements.push(entry(&mut rest)?);
        before_bytes = start - rest.len();
    }
    let is_counted = count == u16::MAX || usize::from(count) == elements.len();
    if rest.is_empty() && is_counted { Ok(elements) } else { Err(RestoreError::Damaged) }
}

fn entry<'p>(rest: &mut Rest<'p>) -> Result<Cow<'p, [u8]>, RestoreError> {
    let first = rest.byte()?;
    let length = match first >> 6 {
        0 => first.into(),
        1 => u16::from_be_bytes([first & 0x3f, rest.byte()?]).into(),
        2 => u32::from_be_bytes(rest.array()?),
        _ => {
            let number = match first {
                0xc0 => i16::from_le_bytes(rest.array()?).into(),
                0xd0 => i32::from_le_bytes(rest.array()?).into(),
                0xe0 => i64::from_le_bytes(rest.array()?),
                0xf0 => {
                    let [a, b, c] = rest.array()?;
                    i64::from(i32::from_le_bytes([0, a, b, c]) >> 8)
                }
                0xfe => i8::from_le_bytes(rest.array()?).into(),
                // The number itself, and one more.
                0xf1..=0xfd => i64::from(first & 0x0f) - 1,
                _ => return Err(RestoreError::Damaged),
            };
            return Ok(Cow::Owned(number.to_string().into_bytes()));
        }
    };
    Ok(Cow::Borrowed(rest.take(length.into())?))
}

/// The strings of a zipmap, a field and its value in turn: a count; strings behind their lengths, of a value
/// also how many bytes behind it are free; 255.
pub(crate) fn read_zipmap(bytes: &[u8]) -> Result<Vec<Cow<'_, [u8]>>, RestoreError> {
    let mut rest = Rest::new(bytes);
    let _count = rest.byte()?;
    let mut elements = Vec::new();
    loop {
        let length = match rest.byte()? {
            END => break,
            LONG => u32::from_le_bytes(rest.array()?).into(),
            short => u64::from(short),
        };
        let is_value = elements.len() % 2 == 1;
        let free = if is_value { rest.byte()? } else { 0 };
        elements.push(Cow::Borrowed(rest.take(length)?));
        rest.take(free.into())?;
    }
    if rest.is_empty() { Ok(elements) } else { Err(RestoreError::Damaged) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ziplist_of_redis_6_is_read() {
        // HSET h a 1 b hello c -300 d 70000 e 12
        let entries: &[&[u8]] = &[
            b"\x00\x01a",
            b"\x03\xf2",
            b"\x02\x01b",
            b"\x03\x05hello",
            b"\x07\x01c",
            b"\x03\xc0\xd4\xfe",
            b"\x04\x01d",
            b"\x03\xf0\x70\x11\x01",
            b"\x05\x01e",
            b"\x03\xfd",
        ];
        let body = entries.concat();
        let mut bytes = ((body.len() + 11) as u32).to_le_bytes().to_vec();
        bytes.extend([0; 4]);
        bytes.extend((entries.len() as u16).to_le_bytes());
        bytes.extend(&body);
        bytes.push(END);
        let read =
            |bytes: &[u8]| read(bytes).map(|read| read.into_iter().map(Cow::into_owned).collect::<Vec<_>>());
        let expected = ["a", "1", "b", "hello", "c", "-300", "d", "70000", "e", "12"];
        assert_eq!(read(&bytes).unwrap(), expected.map(|text| text.as_bytes().to_vec()));
        for cut in 0..bytes.len() {
            assert!(read(&bytes[..cut]).is_err());
        }
        bytes[13] = 9;
        assert_eq!(read(&bytes), Err(RestoreError::Damaged));
    }

    #[test]
    fn a_zipmap_is_read() {
        let bytes = b"\x02\x03foo\x03\x02bar??\x01x\xfe\x01\x00\x00\x00";
        assert!(read_zipmap(bytes).is_err());
        let bytes = b"\x02\x03foo\x03\x02bar??\x05hello\x05\x00world\xff";
        assert_eq!(read_zipmap(bytes).unwrap(), [&b"foo"[..], b"bar", b"hello", b"world"]);
    }
}
