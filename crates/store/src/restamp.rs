//! Another version for a record that is where it stays, at a cost that does not grow with its value.

use crate::record::{CHECKED_FROM, HEADER_BYTES, Record, Shape};
use sidle_types::Version;

/// Where the version is, without the kind behind it.
const VERSION_AT: usize = 12;
const VERSION_BYTES: usize = 7;

/// The first bytes of a record with its value inside, as they are with this version.
///
/// The checksum is linear: it changes by that of what changed, shifted by the length of the rest.
pub(crate) fn restamped(record: Record<'_>, version: Version) -> [u8; HEADER_BYTES] {
    let mut head: [u8; HEADER_BYTES] = record.in_log()[..HEADER_BYTES].try_into().expect("a header");
    let sum = |head: &[u8; HEADER_BYTES]| crc32c::crc32c(&head[CHECKED_FROM..]);
    let before = sum(&head);
    head[VERSION_AT..VERSION_AT + VERSION_BYTES].copy_from_slice(&version.0.to_le_bytes()[..VERSION_BYTES]);
    let rest = Shape::read(record.in_log()).content_bytes() - HEADER_BYTES;
    let changed = crc32c::crc32c_combine(before ^ sum(&head), 0, rest);
    let old = u32::from_le_bytes(head[..CHECKED_FROM].try_into().expect("a checksum"));
    head[..CHECKED_FROM].copy_from_slice(&(old ^ changed).to_le_bytes());
    head
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::record::Draft;
    use sidle_types::{ValueKind, WallMs};

    #[test]
    fn a_record_with_another_version_is_as_if_written_with_it() {
        for (key, value_bytes, expires_at) in
            [("", 0, None), ("k", 0, None), ("key", 1, Some(WallMs(7))), ("key", 100_000, None)]
        {
            let value = vec![9; value_bytes];
            for (before, after) in [(1, 2), (5, 5), (3, Version::MAX.0), (Version::MAX.0, 1)] {
                let [mut old, new] = [before, after].map(|version| {
                    let (mut bytes, value): (_, &[&[u8]]) = (Vec::new(), &[&value]);
                    let (key, version) = (key.as_bytes(), Version(version));
                    Draft::value(key, ValueKind::Hash, value, version, expires_at).append_to(&mut bytes);
                    bytes
                });
                let head = restamped(Record::trusted(&old), Version(after));
                old[..HEADER_BYTES].copy_from_slice(&head);
                assert!(old == new, "{key} with {value_bytes} bytes, from {before} to {after}");
                assert!(Record::check_logged(&old).is_ok());
            }
        }
    }
}
