//! What the two ends of a link send. Either end may lose its connection at any time; then it begins again.

use crate::place::{Place, Tail};
use sidle_log_files::LogId;

/// From whoever writes the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToBackup<'m> {
    /// The first message: a copy of this log is wanted, or goes on.
    Open {
        /// The log.
        log: LogId,
        /// The newest epoch that its writer knows.
        epoch: u64,
    },
    /// Bytes of the log, which belong here. At byte 0 a file begins, perhaps again.
    Append {
        /// Where they belong.
        at: Place,
        /// The bytes.
        bytes: &'m [u8],
    },
    /// The copy begins anew: all of its files go.
    Restart,
    /// The log has no file before this one any more.
    Forget {
        /// The log's first file.
        first: u64,
    },
    /// The epoch from now on.
    Epoch(u64),
    /// Send the copy's bytes from here on, as many as one message takes: its writer has lost them.
    Read(Place),
}

/// From a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToWriter {
    /// Answers `Open`.
    Has {
        /// Where the copy ends, if there is any.
        tail: Option<Tail>,
        /// Everything before this place is synced.
        synced: Place,
    },
    /// Everything before these places is written, and synced.
    Holds {
        /// Written: it survives the backup's process.
        written: Place,
        /// Synced: it survives the machine.
        synced: Place,
    },
    /// Another one writes the log, in this epoch (Y6).
    Deposed(u64),
}
