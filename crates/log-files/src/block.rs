//! The format. Numbers are little-endian, and everything starts at a multiple of 8 bytes.
//!
//! The head of a file, 64 bytes:
//!
//! | bytes | what |
//! |---|---|
//! | 0..8 | `SIDLELOG` |
//! | 8..12 | the format, 1 |
//! | 12..16 | CRC32C of the bytes 16 to 64 |
//! | 16..32 | the log, drawn at its beginning |
//! | 32..40 | the file's number |
//! | 40..48 | the first commit that it may have |
//! | 48..64 | 0 |
//!
//! A block, a head of 40 bytes and its records:
//!
//! | bytes | what |
//! |---|---|
//! | 0..4 | `SLBC`, a commit; or `SLBE`, the end of a closed file |
//! | 4..8 | CRC32C of the log, the file's number, the bytes 8 to 40, and the records |
//! | 8..16 | bytes of records |
//! | 16..24 | the commit |
//! | 24..32 | everything up to this commit was synced when this was written |
//! | 32..36 | the CRC of the block before, or 0 |
//! | 36..40 | bytes of zeros behind the records |
//!
//! The checksum covers log and file, so a block that was left by another file never checks.

use sidle_types::{CommitNumber, LogId};

/// Bytes before the first block of a file.
pub const FILE_HEAD_BYTES: usize = 64;
pub(crate) const BLOCK_HEAD_BYTES: usize = 40;
pub(crate) const ALIGNMENT: usize = 8;
const FILE_MAGIC: &[u8; 8] = b"SIDLELOG";
const FORMAT: u32 = 1;
const COMMIT_MAGIC: &[u8; 4] = b"SLBC";
const END_MAGIC: &[u8; 4] = b"SLBE";
const DIGITS: usize = 12;
const EXTENSION: &str = ".log";

/// The name of a log's file.
pub fn file_name(number: u64) -> String {
    format!("{number:0DIGITS$}{EXTENSION}")
}

/// The number of the file with this name, if it is a log's.
pub fn number_of_file(name: &str) -> Option<u64> {
    let number: u64 = name.strip_suffix(EXTENSION)?.parse().ok()?;
    (file_name(number) == name).then_some(number)
}

/// What a file's head says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileHead {
    pub(crate) log: LogId,
    pub(crate) number: u64,
    pub(crate) first: CommitNumber,
}

impl FileHead {
    pub(crate) fn to_bytes(self) -> [u8; FILE_HEAD_BYTES] {
        let mut bytes = [0; FILE_HEAD_BYTES];
        bytes[..8].copy_from_slice(FILE_MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.log.0);
        bytes[32..40].copy_from_slice(&self.number.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.first.0.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[16..]);
        bytes[12..16].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// The head of these bytes; the error is the format, if it is another one.
    pub(crate) fn read(bytes: &[u8]) -> Result<FileHead, Option<u32>> {
        let bytes: &[u8; FILE_HEAD_BYTES] = bytes.first_chunk().ok_or(None)?;
        if &bytes[..8] != FILE_MAGIC {
            return Err(None);
        }
        let format = u32_at(bytes, 8);
        if format != FORMAT {
            return Err(Some(format));
        }
        if crc32c::crc32c(&bytes[16..]) != u32_at(bytes, 12) {
            return Err(None);
        }
        let log = LogId(bytes[16..32].try_into().expect("sixteen bytes"));
        Ok(FileHead { log, number: u64_at(bytes, 32), first: CommitNumber(u64_at(bytes, 40)) })
    }
}

/// The head of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockHead {
    pub(crate) is_end: bool,
    pub(crate) records: u64,
    pub(crate) commit: CommitNumber,
    pub(crate) synced: CommitNumber,
    pub(crate) previous: u32,
    pub(crate) padding: u32,
}

impl BlockHead {
    /// The head's bytes, in front of these records, and its checksum.
    pub(crate) fn to_bytes(self, file: &FileHead, records: &[u8]) -> ([u8; BLOCK_HEAD_BYTES], u32) {
        let mut bytes = [0; BLOCK_HEAD_BYTES];
        bytes[..4].copy_from_slice(if self.is_end { END_MAGIC } else { COMMIT_MAGIC });
        bytes[8..16].copy_from_slice(&self.records.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.commit.0.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.synced.0.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.previous.to_le_bytes());
        bytes[36..40].copy_from_slice(&self.padding.to_le_bytes());
        let crc = checksum(file, &bytes, records);
        bytes[4..8].copy_from_slice(&crc.to_le_bytes());
        (bytes, crc)
    }

    /// The block at the start of these bytes, if it checks: its head, its checksum and its records.
    pub(crate) fn read<'b>(file: &FileHead, bytes: &'b [u8]) -> Option<(BlockHead, u32, &'b [u8])> {
        let head: &[u8; BLOCK_HEAD_BYTES] = bytes.first_chunk()?;
        let is_end = &head[..4] == END_MAGIC;
        if !is_end && &head[..4] != COMMIT_MAGIC {
            return None;
        }
        let read = BlockHead {
            is_end,
            records: u64_at(head, 8),
            commit: CommitNumber(u64_at(head, 16)),
            synced: CommitNumber(u64_at(head, 24)),
            previous: u32_at(head, 32),
            padding: u32_at(head, 36),
        };
        let end = BLOCK_HEAD_BYTES.checked_add(usize::try_from(read.records).ok()?)?;
        let records = bytes.get(BLOCK_HEAD_BYTES..end)?;
        let crc = checksum(file, head, records);
        (crc == u32_at(head, 4)).then_some((read, crc, records))
    }

    /// All of its bytes.
    pub(crate) fn total_bytes(&self) -> usize {
        BLOCK_HEAD_BYTES + self.records as usize + self.padding as usize
    }
}

fn checksum(file: &FileHead, head: &[u8; BLOCK_HEAD_BYTES], records: &[u8]) -> u32 {
    let crc = crc32c::crc32c(&file.log.0);
    let crc = crc32c::crc32c_append(crc, &file.number.to_le_bytes());
    let crc = crc32c::crc32c_append(crc, &head[8..]);
    crc32c::crc32c_append(crc, records)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_ordered_as_numbers_and_nothing_else_is_a_name() {
        assert!(file_name(9) < file_name(10) && file_name(999_999) < file_name(1_000_000));
        assert_eq!(number_of_file(&file_name(42)), Some(42));
        for name in ["42.log", "000000000042.lo", "00000000004x.log", "-00000000042.log", ".log", ""] {
            assert_eq!(number_of_file(name), None, "{name}");
        }
    }

    #[test]
    fn a_block_of_another_log_or_file_does_not_check() {
        let file = FileHead { log: LogId([7; 16]), number: 3, first: CommitNumber(1) };
        let head = BlockHead {
            is_end: false,
            records: 8,
            commit: CommitNumber(5),
            synced: CommitNumber(4),
            previous: 9,
            padding: 0,
        };
        let (mut bytes, crc) = {
            let (head, crc) = head.to_bytes(&file, b"12345678");
            ([&head[..], b"12345678"].concat(), crc)
        };
        assert_eq!(BlockHead::read(&file, &bytes), Some((head, crc, &b"12345678"[..])));
        assert_eq!(BlockHead::read(&FileHead { number: 4, ..file }, &bytes), None);
        assert_eq!(BlockHead::read(&FileHead { log: LogId([8; 16]), ..file }, &bytes), None);
        assert_eq!(BlockHead::read(&file, &bytes[..47]), None);
        for at in 0..bytes.len() {
            bytes[at] ^= 0x10;
            assert_eq!(BlockHead::read(&file, &bytes), None, "byte {at}");
            bytes[at] ^= 0x10;
        }
    }

    #[test]
    fn a_head_is_read_as_written_and_any_flipped_bit_is_seen() {
        let head = FileHead { log: LogId([7; 16]), number: 3, first: CommitNumber(11) };
        let mut bytes = head.to_bytes();
        assert_eq!(FileHead::read(&bytes), Ok(head));
        for at in 0..bytes.len() {
            bytes[at] ^= 1;
            assert!(FileHead::read(&bytes).is_err(), "byte {at}");
            bytes[at] ^= 1;
        }
        assert_eq!(FileHead::read(&bytes[..63]), Err(None));
        bytes[8] = 2;
        assert_eq!(FileHead::read(&bytes), Err(Some(2)));
    }
}
