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

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.value())
    }
}

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
