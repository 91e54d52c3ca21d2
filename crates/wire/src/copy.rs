//! Copies of a durable log at other nodes: what its writer and a backup send each other, and what a node that
//! takes the log over and a backup do.
//!
//! Either end may lose its connection at any time; then it begins again, with where the copy ends.

use crate::layout::{CopyAnswerLayout, CopyBytesLayout, CopyHelloLayout, CopyTaskLayout};
use crate::{Kind, WireError, begin_frame, end_frame};
use sidle_types::{LogId, NodeId, ProtocolVersion};
use zerocopy::IntoBytes;

/// A place in a log's files. Places are in the order in which the log was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The number of the file.
    pub file: u64,
    /// The byte in it.
    pub at: u64,
}

/// The end of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tail {
    /// Where it ends.
    pub end: Place,
    /// CRC32C of its last file's bytes.
    pub check: u32,
}

/// First frame of a log's writer to a backup, or of a node that reads the copy to take the log over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyHello {
    /// The log.
    pub log: LogId,
    /// The newest epoch of its copies that the writer knows; a reader's is that of the takeover.
    pub epoch: u64,
    /// The writer, or the reader.
    pub node: NodeId,
    /// The start of the backup that is meant; 0 is any.
    pub incarnation: u64,
    /// Whether the copy is to be synced with each write; else once a second.
    pub syncs: bool,
    /// The copy is read, and not written: nothing of an older epoch is taken from now on.
    pub reads: bool,
}

/// From whoever writes a log to a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToBackup<'b> {
    /// Bytes of the log, which belong here. At byte 0 a file begins, perhaps again.
    Append {
        /// Where they belong.
        at: Place,
        /// The bytes.
        bytes: &'b [u8],
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
    /// Send the copy's bytes from here on, as many as one frame takes: its writer has lost them, or they are
    /// read to take the log over.
    Read(Place),
    /// Promise anew that nobody reads the copy for a while. The answer has this number.
    Beat(u64),
}

/// From a backup to whoever writes the log, or reads its copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToWriter<'b> {
    /// Answers [`CopyHello`].
    Has {
        /// Which of its starts this is.
        incarnation: u64,
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
    /// Another one writes the log, in this epoch.
    Deposed(u64),
    /// Answers `Beat` of this number.
    Promises(u64),
    /// Answers a [`CopyHello`] that reads: nobody of an older epoch writes the copy any more.
    Fenced {
        /// Which of its starts this is.
        incarnation: u64,
        /// The copy's first file.
        first: u64,
        /// Where it ends, for good.
        tail: Tail,
        /// For so long its writer may still answer clients, in microseconds.
        promised_us: u64,
    },
    /// Comes before [`ToWriter::Fenced`]: how many bytes the copy's files have.
    Size(u64),
    /// Answers `Read`.
    Bytes {
        /// The bytes.
        bytes: &'b [u8],
        /// Whether a file ends behind them.
        ends_file: bool,
    },
}

pub(crate) const APPEND: u8 = 0;
pub(crate) const RESTART: u8 = 1;
pub(crate) const FORGET: u8 = 2;
pub(crate) const EPOCH: u8 = 3;
pub(crate) const READ: u8 = 4;
pub(crate) const BEAT: u8 = 5;

pub(crate) const HAS_NOTHING: u8 = 0;
pub(crate) const HAS: u8 = 1;
pub(crate) const HOLDS: u8 = 2;
pub(crate) const DEPOSED: u8 = 3;
pub(crate) const PROMISES: u8 = 4;
pub(crate) const FENCED: u8 = 5;
pub(crate) const SIZE: u8 = 6;

impl CopyHello {
    /// Appends the message as a frame, in a version that its receiver speaks.
    pub fn write(&self, version: ProtocolVersion, out: &mut Vec<u8>) {
        let fixed = CopyHelloLayout {
            log: self.log.0,
            epoch: self.epoch.into(),
            incarnation: self.incarnation.into(),
            node: *self.node.as_bytes(),
            syncs: self.syncs.into(),
            reads: self.reads.into(),
            zero: [0; 2],
        };
        let start = begin_frame(out, version, Kind::CopyHello);
        out.extend_from_slice(fixed.as_bytes());
        end_frame(out, start).expect("a fixed body is far below the limit");
    }
}

impl ToBackup<'_> {
    /// Appends the message as a frame. Bytes of more than a frame are refused.
    pub fn write(&self, version: ProtocolVersion, out: &mut Vec<u8>) -> Result<(), WireError> {
        let (what, place, bytes): (u8, Place, &[u8]) = match *self {
            ToBackup::Append { at, bytes } => (APPEND, at, bytes),
            ToBackup::Restart => (RESTART, Place::default(), &[]),
            ToBackup::Forget { first } => (FORGET, Place { file: first, at: 0 }, &[]),
            ToBackup::Epoch(epoch) => (EPOCH, Place { file: epoch, at: 0 }, &[]),
            ToBackup::Read(place) => (READ, place, &[]),
            ToBackup::Beat(number) => (BEAT, Place { file: number, at: 0 }, &[]),
        };
        let start = begin_frame(out, version, Kind::CopyTask);
        let fixed = CopyTaskLayout { file: place.file.into(), at: place.at.into(), what, zero: [0; 7] };
        out.extend_from_slice(fixed.as_bytes());
        out.extend_from_slice(bytes);
        end_frame(out, start)
    }
}

impl ToWriter<'_> {
    /// Appends the message as a frame. Bytes of more than a frame are refused.
    pub fn write(&self, version: ProtocolVersion, out: &mut Vec<u8>) -> Result<(), WireError> {
        let mut fixed = CopyAnswerLayout::default();
        match *self {
            ToWriter::Bytes { bytes, ends_file } => {
                let start = begin_frame(out, version, Kind::CopyBytes);
                let fixed = CopyBytesLayout { ends_file: ends_file.into(), zero: [0; 7] };
                out.extend_from_slice(fixed.as_bytes());
                out.extend_from_slice(bytes);
                return end_frame(out, start);
            }
            ToWriter::Has { incarnation, tail, synced } => {
                fixed.what = if tail.is_some() { HAS } else { HAS_NOTHING };
                fixed.number = incarnation.into();
                let tail = tail.unwrap_or(Tail { end: Place::default(), check: 0 });
                fixed.set_places(tail.end, synced);
                fixed.check = tail.check.into();
            }
            ToWriter::Holds { written, synced } => {
                fixed.what = HOLDS;
                fixed.set_places(written, synced);
            }
            ToWriter::Deposed(epoch) => {
                fixed.what = DEPOSED;
                fixed.number = epoch.into();
            }
            ToWriter::Fenced { incarnation, first, tail, promised_us } => {
                fixed.what = FENCED;
                fixed.number = incarnation.into();
                fixed.set_places(tail.end, Place { file: first, at: promised_us });
                fixed.check = tail.check.into();
            }
            ToWriter::Promises(number) => {
                fixed.what = PROMISES;
                fixed.number = number.into();
            }
            ToWriter::Size(bytes) => {
                fixed.what = SIZE;
                fixed.number = bytes.into();
            }
        }
        let start = begin_frame(out, version, Kind::CopyAnswer);
        out.extend_from_slice(fixed.as_bytes());
        end_frame(out, start)
    }
}

impl CopyAnswerLayout {
    fn set_places(&mut self, written: Place, synced: Place) {
        (self.file, self.at) = (written.file.into(), written.at.into());
        (self.synced_file, self.synced_at) = (synced.file.into(), synced.at.into());
    }
}
