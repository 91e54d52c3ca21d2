//! Reading a payload, which anybody may have made.
//!
//! Redis is looser in two points: it ignores what stands behind the value, and a value that is cut off runs
//! on into the footer. Both are damage, and are refused here.

use crate::error::RestoreError;
use crate::rest::Rest;
use crate::{FOOTER_BYTES, LATEST_VERSION, STRING, checksum, text};
use std::borrow::Cow;

/// The string in a payload: a part of it where that is possible. It has at most `most_bytes`.
///
/// # Errors
/// The payload is damaged, or holds no string.
pub fn restore(payload: &[u8], most_bytes: u64) -> Result<Cow<'_, [u8]>, RestoreError> {
    let body = body(payload).ok_or(RestoreError::Footer)?;
    let mut rest = Rest::new(body);
    match rest.byte()? {
        STRING => {}
        other => {
            return Err(type_name(other).map_or(RestoreError::UnknownType(other), RestoreError::NotAString));
        }
    }
    let value = text::read(&mut rest, most_bytes)?;
    if rest.is_empty() { Ok(value) } else { Err(RestoreError::GoesOn) }
}

/// What stands before the footer, if that is right.
fn body(payload: &[u8]) -> Option<&[u8]> {
    let (body, footer) = payload.split_at_checked(payload.len().checked_sub(FOOTER_BYTES)?)?;
    let (version, expected) = footer.split_first_chunk::<2>()?;
    let expected = u64::from_le_bytes(*expected.first_chunk()?);
    let is_known = u16::from_le_bytes(*version) <= LATEST_VERSION;
    (is_known && checksum::of(&[body, version]) == expected).then_some(body)
}

/// What a type other than a string is called; the number also says how it is kept.
fn type_name(number: u8) -> Option<&'static str> {
    Some(match number {
        1 | 10 | 14 | 18 => "list",
        2 | 11 | 20 => "set",
        3 | 5 | 12 | 17 => "sorted set",
        4 | 9 | 13 | 16 => "hash",
        6 | 7 => "module's value",
        15 | 19 | 21 => "stream",
        _ => return None,
    })
}
