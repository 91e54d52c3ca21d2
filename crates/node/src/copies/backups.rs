//! The copies of other nodes' logs at this node.
//!
//! One connection at a time writes a copy: the one that was opened last, if it may write at all. Others may
//! read it, once it is fenced.

use super::files::{CopyFiles, CopyLink, READ_BYTES};
use super::readers::{Reader, fenced};
use sidle_log_copies::{Answer, Backup, BackupStep, is_end_of};
use sidle_types::{LogId, MonotonicUs, NodeId, ProtocolVersion, fault};
use sidle_wire::{CopyHello, FrameFilter, FrameReader, Message, Place, ToBackup, ToWriter};
use std::collections::{BTreeMap, VecDeque};
use std::io;

#[derive(Debug)]
struct Link {
    hello: CopyHello,
    /// Whether its first message was taken.
    is_open: bool,
    reader: FrameReader,
}

/// The copies of other nodes' logs at this node.
#[derive(Debug)]
pub struct Backups {
    incarnation: u64,
    /// A copy that does not sync each write is synced so often.
    sync_every_us: u64,
    version: ProtocolVersion,
    copies: BTreeMap<LogId, Backup>,
    links: BTreeMap<CopyLink, Link>,
    readers: BTreeMap<CopyLink, Reader>,
    to_send: VecDeque<(CopyLink, Vec<u8>)>,
    to_close: VecDeque<CopyLink>,
}

impl Backups {
    /// The copies at this start of the node.
    pub fn new(incarnation: u64, sync_every_us: u64) -> Backups {
        Backups {
            incarnation,
            sync_every_us,
            version: ProtocolVersion::CURRENT,
            copies: BTreeMap::new(),
            links: BTreeMap::new(),
            readers: BTreeMap::new(),
            to_send: VecDeque::new(),
            to_close: VecDeque::new(),
        }
    }

    /// The version that is written from now on.
    pub fn set_version(&mut self, version: ProtocolVersion) {
        self.version = version;
    }

    /// The nodes that write to copies here, by log.
    pub fn writers(&self) -> impl Iterator<Item = (LogId, NodeId)> {
        self.links.values().map(|link| (link.hello.log, link.hello.node))
    }

    /// A connection was opened with this frame; `reader` has what follows it.
    pub fn opened(
        &mut self,
        now: MonotonicUs,
        link: CopyLink,
        hello: CopyHello,
        mut reader: FrameReader,
        files: &mut impl CopyFiles,
    ) {
        if hello.reads {
            self.reader_opened(now, link, hello, reader, files);
            return;
        }
        let is_meant = hello.incarnation == 0 || hello.incarnation == self.incarnation;
        if !is_meant || !self.find(now, hello.log, files) {
            self.to_close.push_back(link);
            return;
        }
        let older: Vec<CopyLink> = self
            .links
            .iter()
            .filter(|(_, link)| link.hello.log == hello.log)
            .map(|(&link, _)| link)
            .collect();
        older.into_iter().for_each(|older| self.close(older));
        if let Some(backup) = self.copies.get_mut(&hello.log) {
            backup.set_syncs(hello.syncs);
        }
        reader.set_filter(FrameFilter::FROM_WRITER);
        self.links.insert(link, Link { hello, is_open: false, reader });
        self.go_on(now, link, files);
    }

    /// Whether there is a copy of this log, or can be one.
    fn find(&mut self, now: MonotonicUs, log: LogId, files: &mut impl CopyFiles) -> bool {
        if self.copies.contains_key(&log) {
            return true;
        }
        let Ok((epoch, found)) = files.find(log) else { return false };
        let backup = Backup::new(now, log, self.incarnation, epoch, found, self.sync_every_us);
        self.copies.insert(log, backup);
        true
    }

    /// Somebody reads this node's copy of a log from now on: nothing is taken any more that is of an older
    /// epoch. It holds once no step is left. Whether there is a copy.
    pub fn fence(&mut self, now: MonotonicUs, log: LogId, epoch: u64, files: &mut impl CopyFiles) -> bool {
        if !self.find(now, log, files) {
            return false;
        }
        let older: Vec<CopyLink> = (self.links.iter())
            .filter(|(_, link)| link.hello.log == log && link.hello.epoch < epoch)
            .map(|(&link, _)| link)
            .collect();
        older.into_iter().for_each(|link| self.close(link));
        let Some(backup) = self.copies.get_mut(&log) else { return false };
        backup.fence(epoch);
        backup.tail().is_some()
    }

    /// Once nothing of an epoch older than this is taken for the copy, also after a restart: until when it
    /// has promised its writer that nobody takes the log over.
    pub fn is_fenced(&self, log: LogId, epoch: u64) -> Option<MonotonicUs> {
        let backup = self.copies.get(&log)?;
        let promised_until = match fault!(ServesBeforePromisesLapse) {
            true => MonotonicUs(0),
            false => backup.promised_until(),
        };
        (backup.epoch() >= epoch && backup.step().is_none()).then_some(promised_until)
    }

    /// Whether the copy ends as this process has written it, and acknowledged it. What a start would take
    /// for a torn end, and pass over, is damage here.
    pub fn has_its_end(&self, log: LogId, files: &mut impl CopyFiles) -> io::Result<bool> {
        let Some(tail) = self.copies.get(&log).and_then(Backup::tail) else { return Ok(false) };
        let Place { file, at: end } = tail.end;
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < end {
            let at = bytes.len() as u64;
            let (more, _) = files.read(log, Place { file, at }, (end - at) as usize)?;
            if more.is_empty() {
                return Ok(false);
            }
            bytes.extend(more);
        }
        Ok(is_end_of(tail, &bytes))
    }

    /// Something was received over a connection.
    pub fn received(&mut self, now: MonotonicUs, link: CopyLink, bytes: &[u8], files: &mut impl CopyFiles) {
        if let Some(state) = self.links.get_mut(&link) {
            state.reader.push(bytes);
            self.go_on(now, link, files);
        } else if let Some(reader) = self.readers.get_mut(&link) {
            reader.push(bytes);
            self.serve_reader(now, link, files);
        }
    }

    /// A connection has ended by itself.
    pub fn lost(&mut self, link: CopyLink) {
        self.links.remove(&link);
        self.readers.remove(&link);
    }

    fn close(&mut self, link: CopyLink) {
        if self.links.remove(&link).is_some() || self.readers.remove(&link).is_some() {
            self.to_close.push_back(link);
        }
    }

    /// The next connection that is to be closed, once what is to be sent was sent.
    pub fn poll_close(&mut self) -> Option<CopyLink> {
        self.to_close.pop_front()
    }

    /// What is to be sent next.
    pub fn poll_transmit(&mut self) -> Option<(CopyLink, Vec<u8>)> {
        self.to_send.pop_front()
    }

    /// What is to be done next with the files of a copy. The same until it is reported.
    pub fn step(&self) -> Option<(LogId, &BackupStep)> {
        self.copies.iter().find_map(|(&log, backup)| Some((log, backup.step()?)))
    }

    /// It was done.
    pub fn done(&mut self, now: MonotonicUs, log: LogId, files: &mut impl CopyFiles) {
        if let Some(backup) = self.copies.get_mut(&log) {
            backup.done(now);
        }
        self.go_on_with(now, log, files);
        self.serve_readers(now, log, files);
    }

    /// The oldest sync of a copy that was begun has ended well. One that failed is as a step that did.
    pub fn sync_ended(&mut self, now: MonotonicUs, log: LogId, files: &mut impl CopyFiles) {
        if let Some(backup) = self.copies.get_mut(&log) {
            backup.sync_ended(now);
        }
        self.go_on_with(now, log, files);
    }

    /// It failed, and what is left of the copy is not known. The next connection finds it anew, as after a
    /// start: what it ends with is written again before anything is answered.
    pub fn failed(&mut self, log: LogId) {
        self.copies.remove(&log);
        let writers = self.links.iter().filter(|(_, link)| link.hello.log == log).map(|(&link, _)| link);
        let readers = self.readers.iter().filter(|(_, reader)| reader.is_of(log)).map(|(&link, _)| link);
        let links: Vec<CopyLink> = writers.chain(readers).collect();
        links.into_iter().for_each(|link| self.close(link));
    }

    /// Time has passed.
    pub fn pass_time(&mut self, now: MonotonicUs) {
        self.copies.values_mut().for_each(|backup| backup.pass_time(now));
    }

    /// When to call [`Backups::pass_time`] if nothing else happens.
    pub fn poll_timeout(&self) -> Option<MonotonicUs> {
        let idle = self.copies.values().filter(|backup| backup.step().is_none());
        idle.filter_map(Backup::poll_timeout).min()
    }

    fn go_on_with(&mut self, now: MonotonicUs, log: LogId, files: &mut impl CopyFiles) {
        match self.links.iter().find(|(_, link)| link.hello.log == log).map(|(&link, _)| link) {
            Some(link) => self.go_on(now, link, files),
            None => {
                // Whoever opens the next connection asks anew.
                if let Some(backup) = self.copies.get_mut(&log) {
                    while backup.poll_answer().is_some() {}
                }
            }
        }
    }

    /// Takes the next messages of a connection, until there is something to do.
    fn go_on(&mut self, now: MonotonicUs, link: CopyLink, files: &mut impl CopyFiles) {
        while self.answer(link, files) {
            let Some(Link { hello, is_open, reader }) = self.links.get_mut(&link) else { return };
            let Some(backup) = self.copies.get_mut(&hello.log) else { return };
            let goes_on = if !*is_open {
                *is_open = true;
                backup.open(hello.epoch)
            } else {
                match reader.next_frame().map(|frame| frame.map(|frame| frame.message())) {
                    Ok(None) => return,
                    Ok(Some(Ok(Message::ToBackup(task)))) => {
                        if let ToBackup::Epoch(epoch) = task {
                            hello.epoch = epoch;
                        }
                        backup.receive(now, hello.epoch, task)
                    }
                    Ok(Some(_)) | Err(_) => false,
                }
            };
            if !goes_on {
                self.answer(link, files);
                self.close(link);
            }
        }
    }

    /// Takes the answers of a copy, once nothing is left to be done. Whether that is so.
    fn answer(&mut self, link: CopyLink, files: &mut impl CopyFiles) -> bool {
        let Some(Link { hello, is_open, .. }) = self.links.get(&link) else { return false };
        let (log, is_open) = (hello.log, *is_open);
        let mut out = Vec::new();
        while let Some(backup) = self.copies.get_mut(&log).filter(|backup| backup.step().is_none()) {
            let Some(answer) = backup.poll_answer() else { break };
            let written = match answer {
                // It is for an earlier connection.
                _ if !is_open => Ok(()),
                Answer::Message(message) => message.write(self.version, &mut out),
                Answer::BytesFrom(place) => match files.read(log, place, READ_BYTES) {
                    Ok((bytes, ends_file)) => {
                        ToWriter::Bytes { bytes: &bytes, ends_file }.write(self.version, &mut out)
                    }
                    Err(_) => {
                        self.close(link);
                        break;
                    }
                },
            };
            written.expect("an answer is smaller than a frame");
        }
        if !out.is_empty() {
            self.to_send.push_back((link, out));
        }
        self.copies.get(&log).is_some_and(|backup| backup.step().is_none())
    }
}

/// Those who read them.
impl Backups {
    /// A node connects to read the copy of a log.
    fn reader_opened(
        &mut self,
        now: MonotonicUs,
        link: CopyLink,
        hello: CopyHello,
        frames: FrameReader,
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
        self.readers.insert(link, Reader::new(hello, frames));
        self.serve_reader(now, link, files);
    }

    /// A step of a copy is done: its readers may be answered.
    fn serve_readers(&mut self, now: MonotonicUs, log: LogId, files: &mut impl CopyFiles) {
        let of_it = self.readers.iter().filter(|(_, reader)| reader.is_of(log));
        let of_it: Vec<CopyLink> = of_it.map(|(&link, _)| link).collect();
        of_it.into_iter().for_each(|link| self.serve_reader(now, link, files));
    }

    /// Answers what a reader has asked, once its copy is fenced (Y17).
    fn serve_reader(&mut self, now: MonotonicUs, link: CopyLink, files: &mut impl CopyFiles) {
        let Some(Reader { hello, is_answered, .. }) = self.readers.get(&link) else { return };
        let mut out = Vec::new();
        let mut goes_on = true;
        if !is_answered {
            let Some(backup) = self.copies.get(&hello.log) else { return };
            let until = match fault!(FetchedUnfenced) {
                true => backup.step().is_none().then_some(now),
                false => self.is_fenced(hello.log, hello.epoch),
            };
            let Some(until) = until else { return };
            let answer = fenced(backup, self.incarnation, hello.epoch, (now, until));
            goes_on = matches!(answer, ToWriter::Fenced { .. });
            // It only tells how far the reader is.
            if let Some(bytes) = files.size(hello.log).ok().filter(|_| goes_on) {
                ToWriter::Size(bytes).write(self.version, &mut out).expect("a small message");
            }
            answer.write(self.version, &mut out).expect("a small message");
        }
        if let Some(reader) = self.readers.get_mut(&link).filter(|_| goes_on) {
            reader.is_answered = true;
            goes_on = reader.serve(files, self.version, &mut out);
        }
        if !out.is_empty() {
            self.to_send.push_back((link, out));
        }
        if !goes_on {
            self.close(link);
        }
    }
}
