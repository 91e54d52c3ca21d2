//! Writing a payload.

use crate::value::{Dumped, Pair};
use crate::{
    FOOTER_BYTES, HASH, HASH_LISTPACK, LIST_QUICKLIST_2, SET, SET_INTSET, SORTED_SET, SORTED_SET_LISTPACK,
    STRING, WRITTEN_VERSION, checksum, intset, length, listpack, score, text,
};

/// A payload, in parts: a string's value is not copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dump<'v> {
    /// The type, and what is not in `value`.
    front: Vec<u8>,
    value: &'v [u8],
    footer: [u8; FOOTER_BYTES],
}

/// The payload of a value.
pub fn dump(value: Dumped<'_>) -> Dump<'_> {
    let mut front = Vec::new();
    let value = write_value(value, &mut front);
    let version = WRITTEN_VERSION.to_le_bytes();
    let checksum = checksum::of(&[&front, value, &version]);
    let mut footer = [0; FOOTER_BYTES];
    let (footer_version, footer_checksum) = footer.split_at_mut(version.len());
    footer_version.copy_from_slice(&version);
    footer_checksum.copy_from_slice(&checksum.to_le_bytes());
    Dump { front, value, footer }
}

/// Adds a value's type and the value; the rest of it, if any, is returned.
pub(crate) fn write_value<'v>(value: Dumped<'v>, front: &mut Vec<u8>) -> &'v [u8] {
    match value {
        Dumped::String(value) => {
            front.push(STRING);
            return text::write_front(value, front);
        }
        Dumped::Hash { pairs, is_small } => write_hash(pairs, is_small, front),
        Dumped::List(items) => write_list(items, front),
        Dumped::SortedSet { members, is_small } => write_sorted_set(members, is_small, front),
        Dumped::Set { members, is_intset } => write_set(members, is_intset, front),
    }
    &[]
}

fn write_hash(pairs: &[Pair<'_>], is_small: bool, out: &mut Vec<u8>) {
    let elements = pairs.iter().flat_map(|&(field, value)| [field, value]);
    if is_small {
        out.push(HASH_LISTPACK);
        write_text(&listpack::write(elements), out);
    } else {
        out.push(HASH);
        length::write(pairs.len() as u64, out);
        elements.for_each(|element| write_text(element, out));
    }
}

/// About the bytes of a part of a list, as Redis makes them by default.
const LIST_PART_BYTES: usize = 8 << 10;
/// What a part of several items is marked with.
const PACKED: u64 = 2;

fn write_list(items: &[&[u8]], out: &mut Vec<u8>) {
    let mut parts: Vec<&[&[u8]]> = Vec::new();
    let (mut start, mut bytes) = (0, 0);
    for (at, item) in items.iter().enumerate() {
        if at > start && bytes + item.len() > LIST_PART_BYTES {
            parts.push(&items[start..at]);
            (start, bytes) = (at, 0);
        }
        bytes += item.len();
    }
    parts.push(&items[start..]);
    out.push(LIST_QUICKLIST_2);
    length::write(parts.len() as u64, out);
    for part in parts {
        length::write(PACKED, out);
        write_text(&listpack::write(part.iter().copied()), out);
    }
}

fn write_sorted_set(members: &[(&[u8], f64)], is_small: bool, out: &mut Vec<u8>) {
    if is_small {
        let texts: Vec<String> = members.iter().map(|(_, score)| score::text(*score)).collect();
        let elements = members.iter().zip(&texts).flat_map(|((member, _), text)| [*member, text.as_bytes()]);
        out.push(SORTED_SET_LISTPACK);
        return write_text(&listpack::write(elements), out);
    }
    out.push(SORTED_SET);
    length::write(members.len() as u64, out);
    // The highest first, as in Redis.
    for (member, score) in members.iter().rev() {
        write_text(member, out);
        out.extend(score.to_le_bytes());
    }
}

fn write_set(members: &[&[u8]], is_intset: bool, out: &mut Vec<u8>) {
    match intset::write(members).filter(|_| is_intset) {
        Some(intset) => {
            out.push(SET_INTSET);
            write_text(&intset, out);
        }
        None => {
            out.push(SET);
            length::write(members.len() as u64, out);
            members.iter().for_each(|member| write_text(member, out));
        }
    }
}

fn write_text(bytes: &[u8], out: &mut Vec<u8>) {
    let rest = text::write_front(bytes, out);
    out.extend_from_slice(rest);
}

impl Dump<'_> {
    /// The parts of the payload, to be joined.
    pub fn parts(&self) -> [&[u8]; 3] {
        [&self.front, self.value, &self.footer]
    }
}
