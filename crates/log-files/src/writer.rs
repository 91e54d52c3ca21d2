//! What is written next, and where.

use crate::block::{ALIGNMENT, BLOCK_HEAD_BYTES, BlockHead, FILE_HEAD_BYTES, FileHead};
use crate::file_set::FileSet;
use sidle_types::{CommitNumber, LogId, MonotonicUs, fault};
use std::collections::VecDeque;

/// Disks write whole sectors. Where a sync follows, the next block starts in another one, so that nothing
/// that was synced is ever written again.
const SECTOR_BYTES: usize = 4096;

/// When files are synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syncs {
    /// After each commit: a commit is safe when it is synced.
    Always,
    /// As often as this, in microseconds: a commit is safe when it is written.
    Every(u64),
}

/// How a log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// When files are synced.
    pub syncs: Syncs,
    /// A file with so many bytes is closed.
    pub file_bytes: u64,
    /// The oldest file goes when the log takes more than this, and more than `share_percent` of what is live.
    pub least_bytes: u64,
    /// See `least_bytes`.
    pub share_percent: u64,
    /// So many bytes of the oldest file are judged for one commit at least.
    pub judged_bytes: usize,
}

/// Bytes to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write<'w> {
    /// The file.
    pub file: u64,
    /// Where in it; 0: the file is new, and is to be made.
    pub at: u64,
    /// The bytes before the records.
    pub head: Vec<u8>,
    /// The records.
    pub records: &'w [u8],
    /// So many zeros follow.
    pub padding: usize,
}

#[derive(Debug)]
struct File {
    number: u64,
    bytes: u64,
    /// It may go once this commit is synced (G4).
    goes_after: Option<CommitNumber>,
    /// It is being removed, and may be gone.
    is_leaving: bool,
    /// It could not be synced: what it has behind this commit is in the next file (G5).
    given_up_behind: Option<CommitNumber>,
}

impl File {
    fn new(number: u64, bytes: u64) -> File {
        File { number, bytes, goes_after: None, is_leaving: false, given_up_behind: None }
    }
}

/// The writer of a log. One commit at a time: [`open`](Self::open) and what that needs;
/// [`begin`](Self::begin), the I/O, [`written`](Self::written); a sync if [due](Self::is_sync_due), and
/// [`synced`](Self::synced); [`close`](Self::close) and what that needs.
#[derive(Debug)]
pub struct LogWriter {
    settings: Settings,
    log: LogId,
    /// Oldest first; the last is written.
    files: VecDeque<File>,
    head: FileHead,
    /// The last block's checksum.
    previous: u32,
    /// What is being written: the commit, and the bytes behind it in its file.
    begun: Option<(CommitNumber, u64)>,
    written: CommitNumber,
    synced: CommitNumber,
    synced_at: MonotonicUs,
    /// The next block is the first of a new file.
    is_to_rotate: bool,
    /// The open file takes the place of one that was given up, and nothing of it is synced.
    is_in_place: bool,
}

impl LogWriter {
    /// A new log, or one that goes on behind files of these numbers and lengths, all synced, the last of
    /// which has no commit later than `last`.
    pub fn new(
        settings: Settings,
        log: LogId,
        files: impl IntoIterator<Item = (u64, u64)>,
        last: CommitNumber,
        now: MonotonicUs,
    ) -> LogWriter {
        let files: VecDeque<File> =
            files.into_iter().map(|(number, bytes)| File::new(number, bytes)).collect();
        let next = files.back().map_or(1, |file| file.number + 1);
        LogWriter {
            settings,
            log,
            files,
            head: FileHead { log, number: next, first: CommitNumber(last.0 + 1) },
            previous: 0,
            begun: None,
            written: last,
            synced: last,
            synced_at: now,
            // G3
            is_to_rotate: true,
            is_in_place: false,
        }
    }

    /// When files are synced from now on.
    ///
    /// # Panics
    /// While a commit is written.
    pub fn set_syncs(&mut self, syncs: Syncs) {
        assert!(self.begun.is_none(), "between two commits");
        self.settings.syncs = syncs;
    }

    /// When files are synced.
    pub fn syncs(&self) -> Syncs {
        self.settings.syncs
    }

    /// How many bytes of the oldest file are judged for one commit at least.
    pub(crate) fn judged_bytes(&self) -> usize {
        self.settings.judged_bytes
    }

    /// The head of a new file, if one is to be begun before the next commit: it is to be written and synced,
    /// with the folder, before anything else (G1).
    ///
    /// # Panics
    /// If a commit is not synced.
    pub fn open(&mut self) -> Option<Write<'static>> {
        if !self.is_to_rotate {
            return None;
        }
        assert!(self.begun.is_none() && self.synced == self.written, "G1: a file follows one that is synced");
        let number = self.files.back().map_or(self.head.number, |file| file.number + 1);
        let first = CommitNumber(self.written.0 + 1);
        self.head = FileHead { log: self.log, number, first };
        self.files.push_back(File::new(number, FILE_HEAD_BYTES as u64));
        self.previous = 0;
        self.is_to_rotate = false;
        Some(Write { file: number, at: 0, head: self.head.to_bytes().to_vec(), records: &[], padding: 0 })
    }

    /// A commit's records are to be written, in a file that is [open](Self::open).
    ///
    /// # Panics
    /// If another commit is being written, this one is not later than the last, or no file is open.
    pub fn begin<'w>(&mut self, commit: CommitNumber, records: &'w [u8]) -> Write<'w> {
        assert!(self.begun.is_none(), "one commit at a time");
        assert!(commit > self.written, "commits are in order");
        assert!(!self.is_to_rotate, "a file is open");
        let file = self.files.back().expect("a file is open");
        let (number, at) = (file.number, file.bytes);
        let end = at as usize + BLOCK_HEAD_BYTES + records.len();
        let whole = if self.settings.syncs == Syncs::Always { SECTOR_BYTES } else { ALIGNMENT };
        let padding = end.next_multiple_of(whole) - end;
        let block = BlockHead {
            is_end: false,
            records: records.len() as u64,
            commit,
            synced: self.synced,
            previous: self.previous,
            padding: padding as u32,
        };
        let (head, crc) = block.to_bytes(&self.head, records);
        self.previous = crc;
        self.begun = Some((commit, (end + padding) as u64));
        Write { file: number, at, head: head.to_vec(), records, padding }
    }

    /// The bytes of the last [`begin`](Self::begin) are in the kernel's hands. Returns how many these are.
    ///
    /// # Panics
    /// If nothing was begun.
    pub fn written(&mut self) -> u64 {
        let (commit, end) = self.begun.take().expect("a commit was begun");
        self.written = commit;
        let file = self.files.back_mut().expect("a file is open");
        end - std::mem::replace(&mut file.bytes, end)
    }

    /// The last commit that was written, if its file is to be synced now.
    pub fn is_sync_due(&self, now: MonotonicUs) -> Option<CommitNumber> {
        let is_due = match self.settings.syncs {
            Syncs::Always => true,
            Syncs::Every(us) => now.since(self.synced_at) >= us || self.is_full(),
        };
        (is_due && self.synced < self.written).then_some(self.written)
    }

    /// The file that is written now.
    pub fn file(&self) -> Option<u64> {
        self.files.back().map(|file| file.number)
    }

    /// A sync that began after this commit was written has ended.
    pub fn synced(&mut self, commit: CommitNumber, now: MonotonicUs) {
        let commit = if fault!(SyncCoversWhatCameLater) { self.written } else { commit };
        self.synced = self.synced.max(commit);
        self.synced_at = now;
        self.is_in_place = false;
    }

    /// The file that was written last could not be synced. It stays as it is, and what was written behind the
    /// last synced commit is to be written again, as one commit, to a file that is to be [opened](Self::open)
    /// (G5). A file that has nothing of its own is begun again.
    pub fn give_up_file(&mut self) {
        let is_empty = !self.is_to_rotate && (self.is_in_place || self.written < self.head.first);
        if is_empty {
            self.files.pop_back();
        } else if let Some(file) = self.files.back_mut() {
            file.given_up_behind.get_or_insert(self.synced);
        }
        self.begun = None;
        self.written = self.synced;
        self.is_to_rotate = true;
        self.is_in_place = true;
    }

    /// The commit behind which a file that could not be synced is not to be read, if it is one.
    pub fn given_up_behind(&self, file: u64) -> Option<CommitNumber> {
        self.files.iter().find(|other| other.number == file)?.given_up_behind
    }

    /// The last safe commit.
    pub fn safe(&self) -> CommitNumber {
        match self.settings.syncs {
            Syncs::Always => self.synced,
            Syncs::Every(_) => self.written,
        }
    }

    /// The last synced commit.
    pub fn last_synced(&self) -> CommitNumber {
        self.synced
    }

    /// The last commit that was written.
    pub fn last_written(&self) -> CommitNumber {
        self.written
    }

    /// Whether the open file is to be closed, once it is synced.
    pub fn is_full(&self) -> bool {
        self.files.back().is_some_and(|file| file.bytes >= self.settings.file_bytes) && !self.is_to_rotate
    }

    /// The bytes that close the file that was written last, and where they belong, if it is full and synced.
    /// They are to be written and synced before anything else; then the next commit begins a new file.
    pub fn close(&mut self) -> Option<Write<'static>> {
        (self.is_full() && self.synced == self.written).then(|| self.end_of_file())
    }

    /// The same for a file that is not full: nothing is written any more.
    pub fn finish(&mut self) -> Option<Write<'static>> {
        (!self.is_to_rotate && self.synced == self.written).then(|| self.end_of_file())
    }

    fn end_of_file(&mut self) -> Write<'static> {
        let file = self.files.back_mut().expect("a file is open");
        let block = BlockHead {
            is_end: true,
            records: 0,
            commit: self.written,
            synced: self.synced,
            previous: self.previous,
            padding: 0,
        };
        let (bytes, _) = block.to_bytes(&self.head, &[]);
        let at = file.bytes;
        file.bytes += bytes.len() as u64;
        self.is_to_rotate = true;
        Write { file: file.number, at, head: bytes.to_vec(), records: &[], padding: 0 }
    }

    /// The files that the log has, but for one that is being removed (G6).
    pub fn file_set(&self) -> FileSet {
        let stays = |file: &&File| !file.is_leaving || fault!(GoneFileIsRecorded);
        let first = self.files.iter().find(stays).map_or(self.head.number, |file| file.number);
        let last = self.files.back().map_or(first - 1, |file| file.number);
        FileSet { log: self.log, first, last }
    }

    /// The last file and its bytes, if it is closed, and nothing is written that is not synced.
    pub fn closed_at(&self) -> Option<(u64, u64)> {
        let last = self.files.back()?;
        let is_at_rest = self.is_to_rotate && self.begun.is_none() && self.synced == self.written;
        is_at_rest.then_some((last.number, last.bytes))
    }

    /// The bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// The number of files.
    pub fn file_count(&self) -> usize {
        self.files.len()
    }

    /// The file whose live records are to be written again, so that it may go: the oldest, if the log takes
    /// too much beside `live_bytes`. Never the one that is written.
    pub fn to_clean(&self, live_bytes: u64) -> Option<u64> {
        let most = self.settings.least_bytes.max(live_bytes / 100 * self.settings.share_percent);
        let mut staying = self.staying();
        let file = staying.next().filter(|_| self.staying_bytes() > most && staying.next().is_some())?;
        Some(file.number)
    }

    /// The files that do not go yet.
    fn staying(&self) -> impl Iterator<Item = &File> {
        self.files.iter().skip_while(|file| file.goes_after.is_some())
    }

    /// The bytes of the files that do not go yet.
    pub(crate) fn staying_bytes(&self) -> u64 {
        self.staying().map(|file| file.bytes).sum()
    }

    /// Everything live of the oldest file, of those that do not go yet, is in this commit, or in earlier
    /// ones.
    ///
    /// # Panics
    /// If it is another file.
    pub fn cleaned(&mut self, file: u64, by: CommitNumber) {
        let oldest = self.files.iter_mut().find(|file| file.goes_after.is_none());
        let oldest = oldest.filter(|oldest| oldest.number == file).expect("files go in order");
        oldest.goes_after = Some(by);
    }

    /// The oldest file, if it may be removed now (G4).
    pub fn to_remove(&self) -> Option<u64> {
        let oldest = self.files.front()?;
        let safe = if fault!(FileGoesBeforeSurvivorsSynced) { self.written } else { self.synced };
        oldest.goes_after.filter(|by| *by <= safe).map(|_| oldest.number)
    }

    /// The oldest file is to be removed: from now on it may be gone, and is needed no more.
    pub fn leave(&mut self) {
        if let Some(oldest) = self.files.front_mut() {
            oldest.is_leaving = true;
        }
    }

    /// It is removed.
    pub fn removed(&mut self, file: u64) {
        let oldest = self.files.pop_front();
        debug_assert!(oldest.is_some_and(|oldest| oldest.number == file), "the oldest goes first");
    }
}
