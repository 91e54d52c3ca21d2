//! A copy, where it lies: what is done with its files, one step after another.
//!
//! Its files are begun, recorded and removed as the log's own are (G1, G4 and G6 of `sidle-log-files`), so
//! that it is a log of its own whenever its writer dies.

use crate::lease::LEASE_US;
use sidle_log_files::{FILE_HEAD_BYTES, FileEnd, FileSet, LogFile};
use sidle_types::{LogId, MonotonicUs, fault};
use sidle_wire::{Place, Tail, ToBackup, ToWriter};
use std::collections::VecDeque;

/// What is to be done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackupStep {
    /// Keep this epoch: nothing of an older one is taken from now on, nor after a restart (Y6).
    KeepEpoch(u64),
    /// Record which files there are to be, whole or not at all, and sync that.
    Record(FileSet),
    /// Write these bytes. At byte 0 the file is new, and is to be made.
    Write(Place, Vec<u8>),
    /// Write a whole file again, and sync it: an earlier process may have failed to.
    WriteAgain(u64),
    /// Sync the file that was written last.
    Sync,
    /// Begin to sync it, while it is written on; [`Backup::sync_ended`] takes the end of that.
    BeginSync,
    /// Sync which files there are.
    SyncNames,
    /// Remove a file for good.
    Remove(u64),
}

/// What is to be sent to a writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// This message.
    Message(ToWriter<'static>),
    /// The copy's bytes from here on.
    BytesFrom(Place),
}

/// What a restarted process found of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its files, as recorded, all of which are there.
    pub files: FileSet,
    /// The bytes of the last one, up to its [end](whole_end), and their CRC32C.
    pub last: (u64, u32),
}

/// Where the whole blocks of a log's file end, as they are read from its beginning; nothing if it does not
/// begin as one.
///
/// A copy's last file ends there for a process that starts: blocks on their way are written together, so that
/// a later one may be there, and an earlier one not.
pub fn whole_end(bytes: &[u8], number: u64, log: LogId) -> Option<u64> {
    let file = LogFile::open(bytes, number, Some(log)).ok()?;
    let mut at = FILE_HEAD_BYTES;
    let end = file.blocks(|block| at = block.place().end);
    Some(if end == FileEnd::Closed { bytes.len() } else { at } as u64)
}

/// A log's copy at this node.
#[derive(Clone, Debug)]
pub struct Backup {
    log: LogId,
    /// Which of the node's starts this is.
    incarnation: u64,
    epoch: u64,
    syncs: bool,
    sync_every_us: u64,
    /// Its first and last file, and where that ends.
    files: Option<(u64, Tail)>,
    written: Place,
    synced: Place,
    synced_at: MonotonicUs,
    /// Up to where syncs are under way, in order; nothing, if that is begun anew.
    syncing: VecDeque<Option<Place>>,
    /// What its writer knows.
    told: (Place, Place),
    /// Until then nobody is to read the copy to take the log over.
    promised_until: MonotonicUs,
    steps: VecDeque<BackupStep>,
    answers: VecDeque<Answer>,
}

impl Backup {
    /// A copy of this log, at the node's start with this number. Nothing newer than this epoch was seen. It
    /// is synced with each write, or so often.
    pub fn new(
        now: MonotonicUs,
        log: LogId,
        incarnation: u64,
        epoch: u64,
        found: Option<Found>,
        sync_every_us: u64,
    ) -> Backup {
        // Y12: an earlier start may have promised something just before.
        let earlier_us = if fault!(RestartedBackupForgetsItsPromise) { 0 } else { LEASE_US };
        let mut backup = Backup {
            log,
            incarnation,
            epoch,
            syncs: true,
            sync_every_us,
            files: None,
            written: Place::default(),
            synced: Place::default(),
            synced_at: MonotonicUs(0),
            syncing: VecDeque::new(),
            told: (Place::default(), Place::default()),
            promised_until: now.plus_us(earlier_us),
            steps: VecDeque::new(),
            answers: VecDeque::new(),
        };
        if let Some(Found { files, last: (at, check) }) = found {
            let end = Place { file: files.last, at };
            backup.files = Some((files.first, Tail { end, check }));
            backup.steps.push_back(BackupStep::WriteAgain(files.last));
        }
        backup
    }

    /// Whether it is synced with each write from now on.
    pub fn set_syncs(&mut self, syncs: bool) {
        self.syncs = syncs;
    }

    /// The newest epoch that it has seen.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The copy's first file.
    pub fn first(&self) -> Option<u64> {
        self.files.map(|(first, _)| first)
    }

    /// Where the copy ends.
    pub fn tail(&self) -> Option<Tail> {
        self.files.map(|(_, tail)| tail)
    }

    /// Until when the copy has promised its writer that nobody reads it to take the log over. Once it is
    /// [fenced](Backup::fence) this does not change any more.
    pub fn promised_until(&self) -> MonotonicUs {
        self.promised_until
    }

    /// From now on nothing of an older epoch is taken, and nothing is promised to whoever wrote in one:
    /// somebody else is to read the copy, once what was promised is over.
    pub fn fence(&mut self, epoch: u64) {
        if epoch > self.epoch {
            self.epoch = epoch;
            self.steps.push_back(BackupStep::KeepEpoch(epoch));
        }
    }

    /// A writer has connected, with the newest epoch that it knows. Whether it may go on; if not, the
    /// connection is to be closed.
    ///
    /// # Panics
    /// While a step is to be carried out.
    pub fn open(&mut self, epoch: u64) -> bool {
        if !self.takes(epoch) {
            return false;
        }
        self.fence(epoch);
        let (incarnation, tail, synced) = (self.incarnation, self.tail(), self.synced);
        self.answer(ToWriter::Has { incarnation, tail, synced });
        self.told = (self.written, self.synced);
        true
    }

    /// Y6
    fn takes(&mut self, epoch: u64) -> bool {
        assert!(self.steps.is_empty(), "its steps are carried out first");
        let takes = epoch >= self.epoch || fault!(OlderEpochIsTaken);
        if !takes {
            self.answer(ToWriter::Deposed(self.epoch));
        }
        takes
    }

    /// Y11: what is answered to a writer of this epoch is a promise.
    fn promise(&mut self, now: MonotonicUs, epoch: u64) {
        assert!(epoch >= self.epoch || fault!(OlderEpochIsTaken), "Y11: the copy is fenced");
        self.promised_until = self.promised_until.max(now.plus_us(LEASE_US));
    }

    /// A message of a writer. `epoch`: that of its connection, by its last message. Whether it makes sense:
    /// if not, the connection is to be closed.
    ///
    /// # Panics
    /// While a step is to be carried out.
    pub fn receive(&mut self, now: MonotonicUs, epoch: u64, message: ToBackup<'_>) -> bool {
        if !self.takes(epoch) {
            return false;
        }
        match message {
            ToBackup::Epoch(epoch) => self.fence(epoch),
            ToBackup::Read(from) => self.answers.push_back(Answer::BytesFrom(from)),
            ToBackup::Restart => self.restart(),
            ToBackup::Beat(number) => {
                self.promise(now, epoch);
                self.answer(ToWriter::Promises(number));
            }
            ToBackup::Forget { first } => return self.forget(first),
            ToBackup::Append { at, bytes } => {
                if !self.append(at, bytes) {
                    return false;
                }
                self.promise(now, epoch);
                if self.syncs {
                    self.steps.push_back(BackupStep::Sync);
                }
            }
        }
        self.pass_time(now);
        true
    }

    /// When to call [`Backup::pass_time`] if nothing else happens.
    pub fn poll_timeout(&self) -> Option<MonotonicUs> {
        let waits = self.synced < self.written && self.syncing.is_empty();
        waits.then(|| self.synced_at.plus_us(self.sync_every_us))
    }

    /// Syncs, if it is time.
    pub fn pass_time(&mut self, now: MonotonicUs) {
        let is_due = self.synced < self.written && now.since(self.synced_at) >= self.sync_every_us;
        if is_due && self.steps.is_empty() && self.syncing.is_empty() {
            self.steps.push_back(BackupStep::BeginSync);
        }
        if self.synced == self.written {
            self.synced_at = now;
        }
    }

    fn answer(&mut self, message: ToWriter<'static>) {
        self.answers.push_back(Answer::Message(message));
    }

    fn restart(&mut self) {
        let Some((first, tail)) = self.files.take() else { return };
        self.steps.push_back(BackupStep::Record(self.set(first, first - 1)));
        self.steps.extend((first..=tail.end.file).map(BackupStep::Remove));
        (self.written, self.synced) = (Place::default(), Place::default());
        self.forget_syncs();
    }

    fn set(&self, first: u64, last: u64) -> FileSet {
        FileSet { log: self.log, first, last }
    }

    /// What its survivors replaced goes, once these are synced.
    fn forget(&mut self, first: u64) -> bool {
        let Some((old, tail)) = self.files else { return false };
        if first > tail.end.file {
            return false;
        }
        if first <= old {
            return true;
        }
        if !fault!(BackupForgetsBeforeItSyncs) {
            self.steps.push_back(BackupStep::Sync);
        }
        self.files = Some((first, tail));
        self.steps.push_back(BackupStep::Record(self.set(first, tail.end.file)));
        self.steps.extend((old..first).map(BackupStep::Remove));
        true
    }

    /// Only where it ends (Y5), or where a file begins.
    fn append(&mut self, at: Place, bytes: &[u8]) -> bool {
        let end = self.files.map(|(_, tail)| tail.end);
        if at.at > 0 {
            let Some((_, tail)) = &mut self.files else { return false };
            if tail.end != at && !fault!(GapIsAppended) {
                return false;
            }
            tail.end = Place { file: at.file, at: at.at + bytes.len() as u64 };
            tail.check = crc32c::crc32c_append(tail.check, bytes);
            self.steps.push_back(BackupStep::Write(at, bytes.to_vec()));
            return true;
        }
        match end {
            Some(end) if at.file == end.file + 1 => self.steps.push_back(BackupStep::Sync),
            Some(end) if at.file == end.file => {
                let first = self.files.map_or(at.file, |(first, _)| first);
                self.steps.push_back(BackupStep::Record(self.set(first, at.file - 1)));
                self.steps.push_back(BackupStep::Remove(at.file));
                self.forget_syncs();
                self.files = (first < at.file).then_some(self.files).flatten();
            }
            Some(_) => return false,
            None => {}
        }
        let first = self.files.map_or(at.file, |(first, _)| first);
        let end = Place { file: at.file, at: bytes.len() as u64 };
        self.files = Some((first, Tail { end, check: crc32c::crc32c(bytes) }));
        self.steps.push_back(BackupStep::Write(at, bytes.to_vec()));
        self.steps.push_back(BackupStep::Sync);
        self.steps.push_back(BackupStep::SyncNames);
        self.steps.push_back(BackupStep::Record(self.set(first, at.file)));
        true
    }

    /// What is to be done next. The same until it is reported as done. If it fails, the copy is to be opened
    /// anew, as after a restart.
    pub fn step(&self) -> Option<&BackupStep> {
        self.steps.front()
    }

    /// It was done.
    pub fn done(&mut self, now: MonotonicUs) {
        match self.steps.pop_front().expect("a step was to be carried out") {
            BackupStep::Write(at, bytes) => {
                self.written = Place { file: at.file, at: at.at + bytes.len() as u64 };
            }
            BackupStep::WriteAgain(_) => {
                let end = self.files.map_or(Place::default(), |(_, tail)| tail.end);
                (self.written, self.synced) = (end, end);
            }
            BackupStep::Sync => {
                self.synced = self.written;
                self.synced_at = now;
            }
            BackupStep::BeginSync => self.syncing.push_back(Some(self.written)),
            _ => {}
        }
        self.answer_held();
    }

    /// The oldest sync that was begun has ended well. One that failed is as a step that did.
    pub fn sync_ended(&mut self, now: MonotonicUs) {
        if let Some(Some(synced)) = self.syncing.pop_front() {
            self.synced = self.synced.max(synced);
            self.synced_at = now;
            self.answer_held();
        }
    }

    /// What is there is no more what is being synced.
    fn forget_syncs(&mut self) {
        self.syncing.iter_mut().for_each(|place| *place = None);
    }

    fn answer_held(&mut self) {
        // A file counts once it is recorded.
        let held = (self.written, self.synced);
        if self.steps.is_empty() && held != self.told && held.0 > Place::default() {
            self.told = held;
            self.answer(ToWriter::Holds { written: self.written, synced: self.synced });
        }
    }

    /// What is to be sent to the writer, once no step is left.
    pub fn poll_answer(&mut self) -> Option<Answer> {
        self.answers.pop_front()
    }
}
