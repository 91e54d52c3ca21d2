//! Which files a log has: a record of its own beside them, so that a missing one is noticed at either end.
//!
//! | bytes | what |
//! |---|---|
//! | 0..8 | `SIDLESET` |
//! | 8..12 | the format, 1 |
//! | 12..16 | CRC32C of the bytes 16 to 48 |
//! | 16..32 | the log |
//! | 32..40 | the number of the first file |
//! | 40..48 | the number of the last file; one less than the first if there is none |

use crate::survey::Damage;
use sidle_types::LogId;

/// The name of the record.
pub const FILE_SET_NAME: &str = "files";
const BYTES: usize = 48;
const MAGIC: &[u8; 8] = b"SIDLESET";
const FORMAT: u32 = 1;

/// The files that a log is to have (G6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSet {
    /// The log.
    pub log: LogId,
    /// The number of its first file.
    pub first: u64,
    /// The number of its last file; one less than the first if there is none.
    pub last: u64,
}

impl FileSet {
    /// The record's bytes.
    pub fn to_bytes(self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.log.0);
        bytes[32..40].copy_from_slice(&self.first.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.last.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[16..]);
        bytes[12..16].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// The record of these bytes.
    pub fn read(bytes: &[u8]) -> Result<FileSet, Damage> {
        let bytes: &[u8; BYTES] = bytes.try_into().map_err(|_| Damage::FileSet)?;
        let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let mut start = [0; 16];
        start[..8].copy_from_slice(MAGIC);
        start[8..12].copy_from_slice(&FORMAT.to_le_bytes());
        start[12..].copy_from_slice(&crc32c::crc32c(&bytes[16..]).to_le_bytes());
        let log = LogId(bytes[16..32].try_into().expect("sixteen bytes"));
        (bytes[..16] == start)
            .then(|| FileSet { log, first: number(32), last: number(40) })
            .ok_or(Damage::FileSet)
    }

    /// The same without a file that is still to be begun, and those behind it.
    pub fn before(self, file: u64) -> FileSet {
        FileSet { last: file - 1, ..self }
    }

    /// The first file that is to be there and is not among these.
    pub fn missing(&self, numbers: &[u64]) -> Option<u64> {
        (self.first..=self.last).find(|number| !numbers.contains(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_written_and_any_flipped_bit_is_seen() {
        let set = FileSet { log: LogId([7; 16]), first: 3, last: 5 };
        let mut bytes = set.to_bytes();
        assert_eq!(FileSet::read(&bytes), Ok(set));
        for at in 0..bytes.len() {
            bytes[at] ^= 1;
            assert_eq!(FileSet::read(&bytes), Err(Damage::FileSet), "byte {at}");
            bytes[at] ^= 1;
        }
        assert_eq!(FileSet::read(&bytes[..47]), Err(Damage::FileSet));
    }

    #[test]
    fn a_file_that_is_not_there_is_missing_at_either_end() {
        let set = FileSet { log: LogId([7; 16]), first: 3, last: 5 };
        assert_eq!(set.missing(&[2, 3, 4, 5, 6]), None);
        assert_eq!((set.missing(&[4, 5]), set.missing(&[3, 4])), (Some(3), Some(5)));
        assert_eq!(set.before(4).missing(&[3]), None);
        assert_eq!(set.before(3).missing(&[]), None);
    }
}
