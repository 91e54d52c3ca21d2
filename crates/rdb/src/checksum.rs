//! The CRC64 of a payload: Jones's polynomial, reflected, from zero.

use crc::{CRC_64_REDIS, Crc, Digest, Table};
use std::fmt;

/// Sixteen bytes a step: a value may have hundreds of megabytes.
static CRC64: Crc<u64, Table<16>> = Crc::<u64, Table<16>>::new(&CRC_64_REDIS);

/// The checksum of these parts, one after the other.
pub(crate) fn of(parts: &[&[u8]]) -> u64 {
    let mut running = Running::new();
    parts.iter().for_each(|part| running.add(part));
    running.value()
}

/// The checksum of all that was added.
#[derive(Clone)]
pub(crate) struct Running(Digest<'static, u64, Table<16>>);

impl Running {
    /// Of nothing.
    pub(crate) fn new() -> Running {
        Running(CRC64.digest())
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(crate) fn value(&self) -> u64 {
        self.0.clone().finalize()
    }
}

/// A checksum that is computed bit by bit.
#[derive(Clone)]
pub(crate) struct Checksum {
    running: Running,
    bytes: usize,
}

impl Default for Checksum {
    fn default() -> Checksum {
        Checksum { running: Running::new(), bytes: 0 }
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
        self.running.add(all.get(self.bytes..end).unwrap_or_default());
        self.bytes = end;
        (end == all.len()).then(|| self.running.value())
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
