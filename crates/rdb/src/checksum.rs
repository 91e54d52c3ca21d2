//! The CRC64 of a payload: Jones's polynomial, reflected, from zero.

use crc::{CRC_64_REDIS, Crc, Table};

/// Sixteen bytes a step: a value may have hundreds of megabytes.
static CRC64: Crc<u64, Table<16>> = Crc::<u64, Table<16>>::new(&CRC_64_REDIS);

/// The checksum of these parts, one after the other.
pub(crate) fn of(parts: &[&[u8]]) -> u64 {
    let mut digest = CRC64.digest();
    parts.iter().for_each(|part| digest.update(part));
    digest.finalize()
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
