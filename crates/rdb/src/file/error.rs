//! What may be wrong with a file.

use super::LATEST_FILE_VERSION;
use crate::error::RestoreError;

/// What is wrong with an RDB file.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be read.
    #[error("it cannot be read: {0}")]
    Read(#[from] std::io::Error),
    /// It is something else.
    #[error("it is no RDB file: it does not begin with 'REDIS' and four digits")]
    OtherFile,
    /// A later Redis wrote it.
    #[error("its version is {0}, and the latest that is known is {LATEST_FILE_VERSION}")]
    LaterVersion(u16),
    /// It ends too early.
    #[error("it ends at byte {0}, in the middle: it was cut off, or is being written")]
    Truncated(u64),
    /// Something does not fit at this byte.
    #[error("it is damaged, or of an unknown form, before byte {at}: {why}")]
    Damaged {
        /// Where that was noticed.
        at: u64,
        /// What is wrong.
        why: RestoreError,
    },
    /// Its checksum is another.
    #[error("it is damaged: its checksum is {found:016x}, and its bytes give {expected:016x}")]
    Checksum {
        /// At the file's end.
        found: u64,
        /// Of its bytes.
        expected: u64,
    },
}
