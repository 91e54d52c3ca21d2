//! Writing a payload.

use crate::{FOOTER_BYTES, STRING, WRITTEN_VERSION, checksum, text};

/// A string's payload, in parts: the value is not copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dump<'v> {
    /// The type, and the length or all of an encoded value.
    front: Vec<u8>,
    value: &'v [u8],
    footer: [u8; FOOTER_BYTES],
}

/// The payload of a string.
pub fn dump(value: &[u8]) -> Dump<'_> {
    let mut front = vec![STRING];
    let value = text::write_front(value, &mut front);
    let version = WRITTEN_VERSION.to_le_bytes();
    let checksum = checksum::of(&[&front, value, &version]);
    let mut footer = [0; FOOTER_BYTES];
    let (footer_version, footer_checksum) = footer.split_at_mut(version.len());
    footer_version.copy_from_slice(&version);
    footer_checksum.copy_from_slice(&checksum.to_le_bytes());
    Dump { front, value, footer }
}

impl Dump<'_> {
    /// The parts of the payload, to be joined.
    pub fn parts(&self) -> [&[u8]; 3] {
        [&self.front, self.value, &self.footer]
    }
}
