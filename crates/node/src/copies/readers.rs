//! Connections of nodes that read copies here: they take over what the logs' nodes had.
//!
//! A copy is fenced before its reader is answered, as one that this node reads itself (Y17). Then it does not
//! change any more: several may read it at a time, each at its own pace.

use super::files::{CopyFiles, READ_BYTES};
use sidle_log_copies::Backup;
use sidle_types::{LogId, MonotonicUs, ProtocolVersion};
use sidle_wire::{CopyHello, FrameFilter, FrameReader, Message, Place, ToBackup, ToWriter};

/// A connection of a reader.
#[derive(Debug)]
pub(super) struct Reader {
    pub(super) hello: CopyHello,
    /// Whether it knows that the copy is fenced.
    pub(super) is_answered: bool,
    frames: FrameReader,
}

impl Reader {
    pub(super) fn new(hello: CopyHello, mut frames: FrameReader) -> Reader {
        frames.set_filter(FrameFilter::FROM_WRITER);
        Reader { hello, is_answered: false, frames }
    }

    pub(super) fn is_of(&self, log: LogId) -> bool {
        self.hello.log == log
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.frames.push(bytes);
    }

    /// Answers what it has asked of its copy, which is fenced. Whether it makes sense, and can be read.
    pub(super) fn serve(
        &mut self,
        files: &mut impl CopyFiles,
        version: ProtocolVersion,
        out: &mut Vec<u8>,
    ) -> bool {
        loop {
            let place = match self.frames.next_frame().map(|frame| frame.map(|frame| frame.message())) {
                Ok(None) => return true,
                Ok(Some(Ok(Message::ToBackup(ToBackup::Read(place))))) => place,
                Ok(Some(_)) | Err(_) => return false,
            };
            if !give(files, (self.hello.log, place), version, out) {
                return false;
            }
        }
    }
}

/// What a new reader is answered, once the copy takes nothing of an older epoch, also after a restart. Until
/// then its writer may answer clients.
pub(super) fn fenced(
    backup: &Backup,
    incarnation: u64,
    epoch: u64,
    (now, until): (MonotonicUs, MonotonicUs),
) -> ToWriter<'static> {
    if backup.epoch() > epoch {
        return ToWriter::Deposed(backup.epoch());
    }
    match backup.first().zip(backup.tail()) {
        Some((first, tail)) => ToWriter::Fenced { incarnation, first, tail, promised_us: until.since(now) },
        None => ToWriter::Has { incarnation, tail: None, synced: Place::default() },
    }
}

/// Appends bytes of a copy. Whether they can be read.
fn give(
    files: &mut impl CopyFiles,
    (log, place): (LogId, Place),
    version: ProtocolVersion,
    out: &mut Vec<u8>,
) -> bool {
    let Ok((bytes, ends_file)) = files.read(log, place, READ_BYTES) else { return false };
    ToWriter::Bytes { bytes: &bytes, ends_file }.write(version, out).is_ok()
}
