//! Connections of nodes that read copies here: they take over what the logs' nodes had.
//!
//! A copy is fenced before its reader is answered, as one that this node reads itself (Y17). Then it does not
//! change any more: several may read it at a time, each at its own pace.

use super::backups::{Backups, CopyFiles, CopyLink, READ_BYTES};
use sidle_types::{LogId, MonotonicUs, ProtocolVersion, fault};
use sidle_wire::{CopyHello, FrameFilter, FrameReader, Message, Place, ToBackup, ToWriter};

/// A connection of a reader.
#[derive(Debug)]
pub(super) struct Reader {
    hello: CopyHello,
    /// Whether it knows that the copy is fenced.
    is_answered: bool,
    frames: FrameReader,
}

impl Reader {
    pub(super) fn is_of(&self, log: LogId) -> bool {
        self.hello.log == log
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.frames.push(bytes);
    }
}

impl Backups {
    /// A node connects to read the copy of a log.
    pub(super) fn reader_opened(
        &mut self,
        now: MonotonicUs,
        link: CopyLink,
        hello: CopyHello,
        mut frames: FrameReader,
        files: &mut impl CopyFiles,
    ) {
        let is_its = |reader: &Reader| reader.is_of(hello.log) && reader.hello.node == hello.node;
        let its: Vec<CopyLink> =
            self.readers.iter().filter(|(_, reader)| is_its(reader)).map(|(&link, _)| link).collect();
        its.into_iter().for_each(|earlier| self.close(earlier));
        if !fault!(FetchedUnfenced) {
            self.fence(now, hello.log, hello.epoch, files);
        }
        if !self.find(now, hello.log, files) {
            self.to_close.push_back(link);
            return;
        }
        frames.set_filter(FrameFilter::FROM_WRITER);
        self.readers.insert(link, Reader { hello, is_answered: false, frames });
        self.serve_reader(now, link, files);
    }

    /// A step of a copy is done: its readers may be answered.
    pub(super) fn serve_readers(&mut self, now: MonotonicUs, log: LogId, files: &mut impl CopyFiles) {
        let of_it = self.readers.iter().filter(|(_, reader)| reader.is_of(log));
        let of_it: Vec<CopyLink> = of_it.map(|(&link, _)| link).collect();
        of_it.into_iter().for_each(|link| self.serve_reader(now, link, files));
    }

    /// Answers what a reader has asked, once its copy is fenced.
    pub(super) fn serve_reader(&mut self, now: MonotonicUs, link: CopyLink, files: &mut impl CopyFiles) {
        let Some(Reader { hello, is_answered, .. }) = self.readers.get(&link) else { return };
        let (log, mut out) = (hello.log, Vec::new());
        if !is_answered {
            let Some(answer) = self.fenced(now, hello) else { return };
            let goes_on = matches!(answer, ToWriter::Fenced { .. });
            answer.write(self.version, &mut out).expect("a small message");
            self.to_send.push_back((link, std::mem::take(&mut out)));
            if !goes_on {
                self.close(link);
                return;
            }
        }
        let mut is_sound = true;
        while is_sound {
            let Some(reader) = self.readers.get_mut(&link) else { return };
            reader.is_answered = true;
            let place = match reader.frames.next_frame().map(|frame| frame.map(|frame| frame.message())) {
                Ok(None) => break,
                Ok(Some(Ok(Message::ToBackup(ToBackup::Read(place))))) => Some(place),
                Ok(Some(_)) | Err(_) => None,
            };
            is_sound = place.is_some_and(|place| give(files, (log, place), self.version, &mut out));
        }
        if !out.is_empty() {
            self.to_send.push_back((link, out));
        }
        if !is_sound {
            self.close(link);
        }
    }

    /// What a new reader is answered, once the copy takes nothing of an older epoch, also after a restart.
    fn fenced(&self, now: MonotonicUs, hello: &CopyHello) -> Option<ToWriter<'static>> {
        let backup = self.copies.get(&hello.log)?;
        let until = match fault!(FetchedUnfenced) {
            true => backup.step().is_none().then_some(now),
            false => self.is_fenced(hello.log, hello.epoch),
        };
        let (promised_us, incarnation) = (until?.since(now), self.incarnation);
        if backup.epoch() > hello.epoch {
            return Some(ToWriter::Deposed(backup.epoch()));
        }
        Some(match backup.first().zip(backup.tail()) {
            Some((first, tail)) => ToWriter::Fenced { incarnation, first, tail, promised_us },
            None => ToWriter::Has { incarnation, tail: None, synced: Place::default() },
        })
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
