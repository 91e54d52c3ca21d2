//! The layout of a collection: a head, then byte strings.

use crate::encoding::Encoding;
use sidle_types::ValueKind;

/// The encoding, and the count.
pub(crate) const HEAD_BYTES: usize = 5;
/// The longest length: of five groups of seven bits.
const LENGTH_BYTES_MAX: usize = 5;

/// A collection's byte strings, in order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Elements<'b> {
    rest: &'b [u8],
}

/// How many elements a collection has, by its head.
pub(crate) fn count(bytes: &[u8]) -> usize {
    match bytes {
        [_, a, b, c, d, ..] => u32::from_le_bytes([*a, *b, *c, *d]) as usize,
        _ => 0,
    }
}

/// A collection's elements without its head, as a chunk has them.
pub(crate) fn body(bytes: &[u8]) -> &[u8] {
    bytes.get(HEAD_BYTES..).unwrap_or(&[])
}

/// The encoding to report of a collection of any type.
pub fn encoding(bytes: &[u8]) -> Encoding {
    Encoding::numbered(bytes.first().copied().unwrap_or(0))
}

/// How many elements of a collection of this type a chunk has; none if these bytes are no chunk's.
pub fn count_in_chunk(kind: ValueKind, bytes: &[u8]) -> Option<u32> {
    let strings_each = match kind {
        ValueKind::String | ValueKind::Completions | ValueKind::Locks => return None,
        ValueKind::List | ValueKind::Set => 1,
        ValueKind::Hash | ValueKind::SortedSet => 2,
    };
    let mut elements = Elements::of_chunk(bytes);
    let strings = elements.by_ref().count() as u32;
    (elements.bytes_left() == 0 && strings.is_multiple_of(strings_each)).then_some(strings / strings_each)
}

/// The byte strings of a chunk: those of its elements, one after the other.
pub fn strings_in_chunk(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    Elements::of_chunk(bytes)
}

impl<'b> Elements<'b> {
    /// Those of a collection.
    pub(crate) fn of(bytes: &'b [u8]) -> Elements<'b> {
        Elements { rest: body(bytes) }
    }

    /// Those of a chunk.
    pub(crate) fn of_chunk(bytes: &'b [u8]) -> Elements<'b> {
        Elements { rest: bytes }
    }

    /// How many bytes are left.
    pub(crate) fn bytes_left(&self) -> usize {
        self.rest.len()
    }
}

impl<'b> Iterator for Elements<'b> {
    type Item = &'b [u8];

    #[inline]
    fn next(&mut self) -> Option<&'b [u8]> {
        let (length, after) = match self.rest {
            [short, after @ ..] if *short < 0x80 => (usize::from(*short), after),
            rest => long_length(rest)?,
        };
        let (element, rest) = after.split_at_checked(length)?;
        self.rest = rest;
        Some(element)
    }
}

/// A length of more than one byte, and what follows it.
fn long_length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut length = 0;
    for (at, byte) in bytes.iter().take(LENGTH_BYTES_MAX).enumerate() {
        length |= usize::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Some((length, &bytes[at + 1..]));
        }
    }
    None
}

/// Writes a byte string behind others.
pub(crate) fn push(bytes: &mut Vec<u8>, element: &[u8]) {
    let mut length = element.len();
    while length >= 0x80 {
        bytes.push(length as u8 | 0x80);
        length >>= 7;
    }
    bytes.push(length as u8);
    bytes.extend_from_slice(element);
}

/// How many bytes a byte string takes.
pub(crate) fn written_bytes(element: &[u8]) -> usize {
    let length_bits = usize::BITS - element.len().leading_zeros();
    length_bits.div_ceil(7).max(1) as usize + element.len()
}

/// Writes a collection.
#[derive(Debug)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// One of so many elements, whose byte strings have about so many bytes.
    pub(crate) fn new(encoding: Encoding, count: usize, about_bytes: usize) -> Writer {
        let mut bytes = Vec::with_capacity(HEAD_BYTES + about_bytes);
        bytes.push(encoding as u8);
        bytes.extend_from_slice(&(count as u32).to_le_bytes());
        Writer { bytes }
    }

    /// Adds a byte string.
    pub(crate) fn push(&mut self, element: &[u8]) {
        push(&mut self.bytes, element);
    }

    /// The collection.
    pub(crate) fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(
            lengths in prop::collection::vec(0usize..300, 0..40),
            large in 0usize..40_000,
        ) {
            let elements: Vec<Vec<u8>> =
                lengths.iter().chain([&large]).enumerate().map(|(at, &length)| vec![at as u8; length]).collect();
            let mut writer = Writer::new(Encoding::Hashtable, elements.len(), 0);
            elements.iter().for_each(|element| writer.push(element));
            let bytes = writer.finish();
            prop_assert_eq!(count(&bytes), elements.len());
            let expected: usize = elements.iter().map(|element| written_bytes(element)).sum();
            prop_assert_eq!(bytes.len(), HEAD_BYTES + expected);
            prop_assert_eq!(encoding(&bytes), Encoding::Hashtable);
            let read: Vec<&[u8]> = Elements::of(&bytes).collect();
            prop_assert_eq!(read, elements);
        }

        #[test]
        fn bytes_of_any_content_are_read(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let read: usize = Elements::of(&bytes).map(<[u8]>::len).sum();
            prop_assert!(read <= bytes.len());
            let _ = (count(&bytes), encoding(&bytes));
        }
    }

    #[test]
    fn a_length_without_an_end_is_none() {
        assert_eq!(long_length(&[0x80; 9]), None);
        assert_eq!(long_length(&[0x81, 0x01, 7]), Some((129, &[7][..])));
    }
}
