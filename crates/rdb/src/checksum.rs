//! The CRC64 of a payload: Jones's polynomial, reflected, from zero.

use crc::{CRC_64_REDIS, Crc, Digest, Table};
use std::fmt;

/// Sixteen bytes a step: a value may have hundreds of megabytes.
static CRC64: Crc<u64, Table<16>> = Crc::<u64, Table<16>>::new(&CRC_64_REDIS);

/// The checksum of these parts, one after the other.
pub(crate) fn of(parts: &[&[u8]]) -> u64 {
    let mut digest = CRC64.digest();
    parts.iter().for_each(|part| digest.update(part));
    digest.finalize()
}

/// A checksum that is computed bit by bit.
#[derive(Clone)]
pub(crate) struct Checksum {
    digest: Digest<'static, u64, Table<16>>,
    bytes: usize,
}

impl Default for Checksum {
    fn default() -> Checksum {
        Checksum { digest: CRC64.digest(), bytes: 0 }
    }
}

impl fmt::Debug for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Checksum").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl Checksum {
    /// Looks at so many bytes more of these; the checksum, once it is that of all of them.
    pub(crate) fn update(&mut self, all: &[u8], bytes: usize) -> Option<u64> {
        let end = all.len().min(self.bytes.saturating_add(bytes));
        self.digest.update(all.get(self.bytes..end).unwrap_or_default());
        self.bytes = end;
        (end == all.len()).then(|| self.digest.clone().finalize())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_known_text_is_known() {
        assert_eq!(of(&[b"123456789"]), 0xe9c6_d914_c4b8_d9ca);
        assert_eq!(of(&[b"1234", b"", b"56789"]), 0xe9c6_d914_c4b8_d9ca);
        assert_eq!(of(&[]), 0);
    }
}
