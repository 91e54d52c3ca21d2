//! Intsets: small sets of integers, in ascending order.
//!
//! | bytes | what |
//! |---|---|
//! | 4 | how many bytes a member takes, little-endian: 2, 4 or 8 |
//! | 4 | how many members, little-endian |
//! | any | the members, little-endian |

use crate::error::RestoreError;
use crate::rest::{Rest, Source};
use std::borrow::Cow;

/// The intset of these members, if they are different integers that read exactly as their texts.
pub(crate) fn write(members: &[&[u8]]) -> Option<Vec<u8>> {
    let numbers: Option<Vec<i64>> = members.iter().map(|text| number(text)).collect();
    let mut numbers = numbers?;
    numbers.sort_unstable();
    let fits = |bits: u32| {
        let (least, most) = (-(1i64 << (bits - 1)), (1i64 << (bits - 1)) - 1);
        numbers.iter().all(|number| (least..=most).contains(number))
    };
    let width: usize = if fits(16) {
        2
    } else if fits(32) {
        4
    } else {
        8
    };
    let mut out = (width as u32).to_le_bytes().to_vec();
    out.extend((numbers.len() as u32).to_le_bytes());
    numbers.iter().for_each(|number| out.extend(&number.to_le_bytes()[..width]));
    Some(out)
}

fn number(text: &[u8]) -> Option<i64> {
    let number: i64 = str::from_utf8(text).ok()?.parse().ok()?;
    (number.to_string().as_bytes() == text).then_some(number)
}

/// The members of an intset.
pub(crate) fn read(bytes: &[u8]) -> Result<Vec<Cow<'_, [u8]>>, RestoreError> {
    let mut rest = Rest::new(bytes);
    let width = u32::from_le_bytes(rest.array()?);
    let count = u32::from_le_bytes(rest.array()?);
    let (mut members, mut before) = (Vec::new(), None);
    for _ in 0..count {
        let number = match width {
            2 => i16::from_le_bytes(rest.array()?).into(),
            4 => i32::from_le_bytes(rest.array()?).into(),
            8 => i64::from_le_bytes(rest.array()?),
            _ => return Err(RestoreError::Damaged),
        };
        if before.is_some_and(|before| before >= number) {
            return Err(RestoreError::Damaged);
        }
        before = Some(number);
        members.push(Cow::Owned(number.to_string().into_bytes()));
    }
    if rest.is_empty() { Ok(members) } else { Err(RestoreError::Damaged) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_in_order() {
        for (members, width) in [
            (&["3", "-1", "32767", "-32768"][..], 2),
            (&["0", "32768"], 4),
            (&["-2147483648", "2147483647"], 4),
            (&["2147483648", "1"], 8),
            (&["-9223372036854775808", "9223372036854775807"], 8),
        ] {
            let texts: Vec<&[u8]> = members.iter().map(|text| text.as_bytes()).collect();
            let written = write(&texts).unwrap();
            assert_eq!((written[0], written.len()), (width, 8 + usize::from(width) * texts.len()));
            let mut sorted: Vec<i64> = members.iter().map(|text| text.parse().unwrap()).collect();
            sorted.sort_unstable();
            let expected: Vec<Vec<u8>> =
                sorted.iter().map(|number| number.to_string().into_bytes()).collect();
            assert_eq!(read(&written).unwrap(), expected);
            for cut in 0..written.len() {
                assert!(read(&written[..cut]).is_err());
            }
        }
        assert_eq!(write(&[b"1", b"01"]), None);
    }

    #[test]
    fn damage_is_refused() {
        for bytes in [
            &b"\x03\0\0\0\x01\0\0\0\x01\0\0"[..],
            b"\x02\0\0\0\x01\0\0\0\x01\0\x02",
            b"\x02\0\0\0\x02\0\0\0\x02\0\x01\0",
            b"\x02\0\0\0\x02\0\0\0\x01\0\x01\0",
        ] {
            assert_eq!(read(bytes), Err(RestoreError::Damaged), "{}", bytes.escape_ascii());
        }
    }
}
