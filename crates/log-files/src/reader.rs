//! The blocks of a file, and whether what ends them is a tear or damage.

use crate::block::{ALIGNMENT, BLOCK_HEAD_BYTES, BlockHead, FILE_HEAD_BYTES, FileHead};
use sidle_types::{CommitNumber, LogId, fault};

/// Why a file is none of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// It has no head, or a damaged one.
    #[error("it does not begin as a log file does")]
    NoHead,
    /// A later version wrote it.
    #[error("it has format {0}, which this version does not read")]
    Format(u32),
    /// Its head names another file.
    #[error("it says that it is file {0}")]
    Number(u64),
    /// It belongs to another log.
    #[error("it belongs to another log than the files before it")]
    Log,
}

/// A block that checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block<'f> {
    /// The commit.
    pub commit: CommitNumber,
    /// Its records.
    pub records: &'f [u8],
    /// Where the block starts in its file.
    pub at: usize,
}

impl Block<'_> {
    /// Where its records are in its file.
    pub fn place(&self) -> std::ops::Range<usize> {
        let start = self.at + BLOCK_HEAD_BYTES;
        start..start + self.records.len()
    }
}

/// How the blocks of a file end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileEnd {
    /// The file was closed.
    Closed,
    /// At its last byte.
    Open,
    /// In bytes that no sync covered.
    Torn {
        /// Where they start.
        at: usize,
    },
    /// In bytes that were synced, and do not check.
    Damaged {
        /// Where they start.
        at: usize,
        /// A later block shows that so much was synced.
        synced: CommitNumber,
    },
}

/// What closes a file that was read, and cuts off what stands there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closing {
    /// Where it belongs.
    pub at: usize,
    /// The last block.
    pub bytes: Vec<u8>,
    /// What lies before is written again first: a sync of it may have failed, and what the system dropped
    /// then no later sync writes (G5).
    pub writes_again: bool,
    /// The file is synced before these bytes are written, and again behind them. They name all before them as
    /// synced (G2), and a process that died had perhaps only written it.
    pub syncs_before: bool,
}

/// What lies before a place in a file.
struct Behind {
    at: usize,
    /// The last block's checksum.
    previous: u32,
    last: CommitNumber,
}

/// Whether a file of so many bytes, which does not begin as a log file does, was only being begun: nothing is
/// written to it before its head is synced (G1).
pub fn is_torn_beginning(bytes: u64) -> bool {
    bytes <= FILE_HEAD_BYTES as u64
}

/// A file that was read.
#[derive(Debug)]
pub struct LogFile<'f> {
    head: FileHead,
    bytes: &'f [u8],
}

impl<'f> LogFile<'f> {
    /// The file with this number, of a log, or of any if that is not known.
    pub fn open(bytes: &'f [u8], number: u64, log: Option<LogId>) -> Result<LogFile<'f>, FileError> {
        let head =
            FileHead::read(bytes).map_err(|format| format.map_or(FileError::NoHead, FileError::Format))?;
        if head.number != number {
            return Err(FileError::Number(head.number));
        }
        if log.is_some_and(|log| log != head.log) {
            return Err(FileError::Log);
        }
        Ok(LogFile { head, bytes })
    }

    /// The file with this number of this log, whatever its head says: only blocks of this file check.
    pub fn without_head(bytes: &'f [u8], number: u64, log: LogId) -> LogFile<'f> {
        LogFile { head: FileHead { log, number, first: CommitNumber(1) }, bytes }
    }

    /// The log.
    pub fn log(&self) -> LogId {
        self.head.log
    }

    /// The first commit that it may have.
    pub fn first(&self) -> CommitNumber {
        self.head.first
    }

    /// Passes the blocks up to the first that does not check to `f`; how they end.
    pub fn blocks(&self, f: impl FnMut(Block<'f>)) -> FileEnd {
        self.walk(f).0
    }

    /// The same; and what closes the file behind its last block that checks.
    pub fn blocks_and_closing(&self, f: impl FnMut(Block<'f>)) -> (FileEnd, Closing) {
        let (end, Behind { at, previous, last }) = self.walk(f);
        let head = BlockHead { is_end: true, records: 0, commit: last, synced: last, previous, padding: 0 };
        let bytes = head.to_bytes(&self.head, &[]).0.to_vec();
        let writes_again = !fault!(ReadIsTakenAsWritten);
        (end, Closing { at, bytes, writes_again, syncs_before: !fault!(ClosedBeforeSynced) })
    }

    fn walk(&self, mut f: impl FnMut(Block<'f>)) -> (FileEnd, Behind) {
        let before = CommitNumber(self.head.first.0.saturating_sub(1));
        let mut behind = Behind { at: FILE_HEAD_BYTES, previous: 0, last: before };
        loop {
            let Behind { at, previous, last } = behind;
            if at >= self.bytes.len() {
                return (FileEnd::Open, behind);
            }
            let found = BlockHead::read(&self.head, &self.bytes[at..]);
            let fits = |head: &BlockHead| {
                head.previous == previous
                    && if head.is_end { head.commit == last } else { head.commit > last }
            };
            let Some((head, crc, records)) = found.filter(|(head, ..)| fits(head)) else {
                return (self.judge(at, last), behind);
            };
            if head.is_end {
                return (FileEnd::Closed, behind);
            }
            f(Block { commit: head.commit, records, at });
            behind = Behind { at: at + head.total_bytes(), previous: crc, last: head.commit };
        }
    }

    /// Every block that checks, wherever it is: of a damaged file.
    fn salvage(&self, mut f: impl FnMut(Block<'f>)) {
        let mut at = FILE_HEAD_BYTES;
        while at < self.bytes.len() {
            match BlockHead::read(&self.head, &self.bytes[at..]) {
                Some((head, _, records)) => {
                    if !head.is_end {
                        f(Block { commit: head.commit, records, at });
                    }
                    at += head.total_bytes();
                }
                None => at += ALIGNMENT,
            }
        }
    }

    /// A closed file with every block that checks, to take the place of this damaged one.
    pub fn salvaged(&self) -> Vec<u8> {
        let mut bytes = self.head.to_bytes().to_vec();
        let (mut previous, mut last) = (0, CommitNumber(self.head.first.0.saturating_sub(1)));
        self.salvage(|block| {
            if block.commit <= last {
                return;
            }
            last = block.commit;
            let records = block.records.len() as u64;
            let (commit, synced) = (block.commit, last);
            let head = BlockHead { is_end: false, records, commit, synced, previous, padding: 0 };
            let (head, crc) = head.to_bytes(&self.head, block.records);
            bytes.extend_from_slice(&head);
            bytes.extend_from_slice(block.records);
            previous = crc;
        });
        let end = BlockHead { is_end: true, records: 0, commit: last, synced: last, previous, padding: 0 };
        bytes.extend_from_slice(&end.to_bytes(&self.head, &[]).0);
        bytes
    }

    /// What bytes are that do not check, behind a commit (G2).
    fn judge(&self, at: usize, last: CommitNumber) -> FileEnd {
        let mut synced = CommitNumber(0);
        let mut from = at;
        while from < self.bytes.len() {
            match BlockHead::read(&self.head, &self.bytes[from..]) {
                Some((head, ..)) => {
                    synced = synced.max(head.synced);
                    from += head.total_bytes();
                }
                None => from += ALIGNMENT,
            }
        }
        match synced > last {
            true => FileEnd::Damaged { at, synced },
            false => FileEnd::Torn { at },
        }
    }
}
