//! What a command's reply is to be still: its digest.

use xxhash_rust::xxh3::xxh3_64;

/// The digest of a reply: XXH3-64 of its bytes. It travels as 8 bytes, lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Check(u64);

impl Check {
    /// That of a reply.
    pub fn of(reply: &[u8]) -> Check {
        Check(xxh3_64(reply))
    }

    /// Its bytes.
    pub const fn bytes(self) -> [u8; 8] {
        self.0.to_le_bytes()
    }

    /// The one with these bytes, if they are 8.
    pub fn read(bytes: &[u8]) -> Option<Check> {
        bytes.try_into().ok().map(u64::from_le_bytes).map(Check)
    }
}

#[cfg(test)]
mod tests {
    use super::Check;

    #[test]
    fn a_check_is_read_as_it_is_written_and_tells_replies_apart() {
        let check = Check::of(b"$1\r\na\r\n");
        assert_eq!(Check::read(&check.bytes()), Some(check));
        assert_ne!(check, Check::of(b"$1\r\nb\r\n"));
        assert_eq!((Check::read(b""), Check::read(b"1234567")), (None, None));
    }
}
