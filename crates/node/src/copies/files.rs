//! Copies where they lie, and the connections to them.

use sidle_log_copies::Found;
use sidle_types::LogId;
use sidle_wire::Place;
use std::io;

/// The most bytes of a copy that are sent at once.
pub(super) const READ_BYTES: usize = 256 << 10;

/// A connection, by its driver's name for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CopyLink(pub u64);

/// The files of the copies.
pub trait CopyFiles {
    /// The newest epoch that the copy of this log has seen, and what is there of it, as a start finds it:
    /// with no file open. Epoch and record are kept again first: an earlier sync may have failed, and what is
    /// read then is not on the disk, nor does a later sync write it.
    fn find(&mut self, log: LogId) -> io::Result<(u64, Option<Found>)>;
    /// How many bytes the files of a copy have.
    fn size(&mut self, log: LogId) -> io::Result<u64>;
    /// Bytes of a copy from this place on, so many at most, and whether the file ends behind them.
    fn read(&mut self, log: LogId, from: Place, most: usize) -> io::Result<(Vec<u8>, bool)>;
}
