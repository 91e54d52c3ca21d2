//! Reading a payload, which anybody may have made.
//!
//! Redis is looser in two points: it ignores what stands behind the value, and a value that is cut off runs
//! on into the footer. Both are damage, and are refused here.

use crate::error::RestoreError;
use crate::length::Length;
use crate::rest::{Rest, Source};
use crate::value::Restored;
use crate::{
    FOOTER_BYTES, HASH, HASH_LISTPACK, HASH_ZIPLIST, HASH_ZIPMAP, LATEST_VERSION, LIST, LIST_QUICKLIST,
    LIST_QUICKLIST_2, LIST_ZIPLIST, SET, SET_INTSET, SET_LISTPACK, SORTED_SET, SORTED_SET_LISTPACK,
    SORTED_SET_TEXTS, SORTED_SET_ZIPLIST, STRING, checksum, intset, listpack, score, text, ziplist,
};
use std::borrow::Cow;
use std::collections::BTreeSet;

/// The value in a payload. A string, and a small collection, has at most `most_bytes`.
///
/// # Errors
/// The payload is damaged, or holds a value of another type.
pub fn restore(payload: &[u8], most_bytes: u64) -> Result<Restored<'_>, RestoreError> {
    let body = body(payload).ok_or(RestoreError::Footer)?;
    let mut rest = Rest::new(body);
    let value = match rest.byte()? {
        STRING => Restored::String(text::read(&mut rest, most_bytes)?),
        HASH => {
            let fields = Length::read_bytes(&mut rest)?;
            hash(texts(&mut rest, fields.saturating_mul(2), most_bytes)?)?
        }
        HASH_LISTPACK => hash(small(text::read(&mut rest, most_bytes)?, listpack::read)?)?,
        HASH_ZIPLIST => hash(small(text::read(&mut rest, most_bytes)?, ziplist::read)?)?,
        HASH_ZIPMAP => hash(small(text::read(&mut rest, most_bytes)?, ziplist::read_zipmap)?)?,
        SET => {
            let members = Length::read_bytes(&mut rest)?;
            set(texts(&mut rest, members, most_bytes)?)?
        }
        LIST => {
            let items = Length::read_bytes(&mut rest)?;
            list(texts(&mut rest, items, most_bytes)?)?
        }
        LIST_ZIPLIST => list(small(text::read(&mut rest, most_bytes)?, ziplist::read)?)?,
        LIST_QUICKLIST => {
            list(parts(&mut rest, most_bytes, |rest, left| small(text::read(rest, left)?, ziplist::read))?)?
        }
        LIST_QUICKLIST_2 => list(parts(&mut rest, most_bytes, list_part)?)?,
        SORTED_SET => {
            let members = Length::read_bytes(&mut rest)?;
            scored_members(&mut rest, members, most_bytes, |rest| Ok(f64::from_le_bytes(rest.array()?)))?
        }
        SORTED_SET_TEXTS => {
            let members = Length::read_bytes(&mut rest)?;
            scored_members(&mut rest, members, most_bytes, score::read_old)?
        }
        SORTED_SET_ZIPLIST => small_sorted_set(small(text::read(&mut rest, most_bytes)?, ziplist::read)?)?,
        SORTED_SET_LISTPACK => small_sorted_set(small(text::read(&mut rest, most_bytes)?, listpack::read)?)?,
        SET_INTSET => set(small(text::read(&mut rest, most_bytes)?, intset::read)?)?,
        SET_LISTPACK => set(small(text::read(&mut rest, most_bytes)?, listpack::read)?)?,
        other => {
            return Err(type_name(other).map_or(RestoreError::UnknownType(other), RestoreError::OtherType));
        }
    };
    if rest.is_empty() { Ok(value) } else { Err(RestoreError::GoesOn) }
}

/// So many strings, of `most_bytes` at most together.
fn texts<'p>(rest: &mut Rest<'p>, count: u64, most_bytes: u64) -> Result<Vec<Cow<'p, [u8]>>, RestoreError> {
    let (mut texts, mut left) = (Vec::new(), most_bytes);
    // The count is a stranger's word: memory is taken as strings are found.
    for _ in 0..count {
        let text = text::read(rest, left)?;
        left -= text.len() as u64;
        texts.push(text);
    }
    Ok(texts)
}

/// The elements of a small collection, which is one string.
fn small<'p>(
    bytes: Cow<'p, [u8]>,
    read: impl for<'b> Fn(&'b [u8]) -> Result<Vec<Cow<'b, [u8]>>, RestoreError>,
) -> Result<Vec<Cow<'p, [u8]>>, RestoreError> {
    match bytes {
        Cow::Borrowed(bytes) => read(bytes),
        // It was compressed.
        Cow::Owned(bytes) => {
            let elements = read(&bytes)?.into_iter();
            Ok(elements.map(|element| Cow::Owned(element.into_owned())).collect())
        }
    }
}

/// The hash of fields and values in turn.
fn hash(elements: Vec<Cow<'_, [u8]>>) -> Result<Restored<'_>, RestoreError> {
    let fields: BTreeSet<&[u8]> = elements.iter().step_by(2).map(Cow::as_ref).collect();
    if elements.is_empty() || 2 * fields.len() != elements.len() {
        return Err(RestoreError::Damaged);
    }
    let mut elements = elements.into_iter();
    let pairs = std::iter::from_fn(|| Some((elements.next()?, elements.next()?)));
    Ok(Restored::Hash(pairs.collect()))
}

/// What a part of a list is marked with: one item, or several.
const PLAIN: u64 = 1;
const PACKED: u64 = 2;

/// A part of a list: its items.
pub(crate) fn list_part<'p>(
    rest: &mut Rest<'p>,
    most_bytes: u64,
) -> Result<Vec<Cow<'p, [u8]>>, RestoreError> {
    match Length::read_bytes(rest)? {
        PLAIN => Ok(vec![text::read(rest, most_bytes)?]),
        PACKED => small(text::read(rest, most_bytes)?, listpack::read),
        _ => Err(RestoreError::Damaged),
    }
}

/// The items of a list in parts, of about `most_bytes` at most together.
fn parts<'p>(
    rest: &mut Rest<'p>,
    most_bytes: u64,
    read: impl Fn(&mut Rest<'p>, u64) -> Result<Vec<Cow<'p, [u8]>>, RestoreError>,
) -> Result<Vec<Cow<'p, [u8]>>, RestoreError> {
    let count = Length::read_bytes(rest)?;
    let (mut items, mut left) = (Vec::new(), most_bytes);
    for _ in 0..count {
        let part = read(rest, left)?;
        let bytes: usize = part.iter().map(|item| item.len()).sum();
        left = left.checked_sub(bytes as u64).ok_or(RestoreError::TooLong)?;
        items.extend(part);
    }
    Ok(items)
}

/// The list of these items.
fn list(items: Vec<Cow<'_, [u8]>>) -> Result<Restored<'_>, RestoreError> {
    if items.is_empty() { Err(RestoreError::Damaged) } else { Ok(Restored::List(items)) }
}

/// So many members with their scores, of `most_bytes` at most together.
fn scored_members<'p>(
    rest: &mut Rest<'p>,
    count: u64,
    most_bytes: u64,
    read_score: impl Fn(&mut Rest<'p>) -> Result<f64, RestoreError>,
) -> Result<Restored<'p>, RestoreError> {
    let (mut members, mut left) = (Vec::new(), most_bytes);
    for _ in 0..count {
        let member = text::read(rest, left)?;
        left -= member.len() as u64;
        members.push((member, read_score(rest)?));
    }
    sorted_set(members)
}

/// The sorted set of members and scores in turn.
fn small_sorted_set(elements: Vec<Cow<'_, [u8]>>) -> Result<Restored<'_>, RestoreError> {
    let mut elements = elements.into_iter();
    let mut members = Vec::new();
    while let Some(member) = elements.next() {
        members.push((member, score::read(&elements.next().ok_or(RestoreError::Damaged)?)?));
    }
    sorted_set(members)
}

fn sorted_set(members: Vec<(Cow<'_, [u8]>, f64)>) -> Result<Restored<'_>, RestoreError> {
    let different: BTreeSet<&[u8]> = members.iter().map(|(member, _)| member.as_ref()).collect();
    let is_sound = !different.is_empty()
        && different.len() == members.len()
        && !members.iter().any(|(_, score)| score.is_nan());
    if is_sound { Ok(Restored::SortedSet(members)) } else { Err(RestoreError::Damaged) }
}

/// The set of these members.
fn set(members: Vec<Cow<'_, [u8]>>) -> Result<Restored<'_>, RestoreError> {
    let different: BTreeSet<&[u8]> = members.iter().map(Cow::as_ref).collect();
    match different.is_empty() || different.len() != members.len() {
        true => Err(RestoreError::Damaged),
        false => Ok(Restored::Set(members)),
    }
}

/// What stands before the footer, if that is right.
fn body(payload: &[u8]) -> Option<&[u8]> {
    let (summed, expected) = summed(payload)?;
    (checksum::of(&[summed]) == expected).then(|| &summed[..payload.len() - FOOTER_BYTES])
}

/// What the checksum in the footer is of, and the checksum, if the version is a known one.
pub(crate) fn summed(payload: &[u8]) -> Option<(&[u8], u64)> {
    let (summed, expected) = payload.split_last_chunk()?;
    let version = u16::from_le_bytes(*summed.last_chunk()?);
    (version <= LATEST_VERSION).then(|| (summed, u64::from_le_bytes(*expected)))
}

/// What another type is called; the number also says how it is kept.
fn type_name(number: u8) -> Option<&'static str> {
    Some(match number {
        6 | 7 => "module's value",
        15 | 19 | 21 => "stream",
        _ => return None,
    })
}
