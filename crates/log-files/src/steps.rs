//! What the log writer does, one step after another, and what follows when one fails.
//!
//! A round is a commit, its sync, and what is to be tidied up: the caller calls
//! [`take`](CommitSteps::take), [`sync`](CommitSteps::sync) and [`tidy`](CommitSteps::tidy). After each it
//! carries out every [`step`](CommitSteps::step), and reports its result.
//!
//! | what fails | what follows |
//! |---|---|
//! | a write, a record of the files, a check | it is repeated until it succeeds; nothing behind it is safe before |
//! | a sync | the file is given up: what it may have lost is written to a new one, until that succeeds (G5) |
//! | a removal, the beginning of a sync | it is put off to another round |

use crate::cleaning::Cleaning;
use crate::file_set::FileSet;
use crate::kept::Kept;
use crate::writer::{LogWriter, Syncs, Write};
use sidle_types::{CommitNumber, MonotonicUs, fault};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// How often the files are looked for.
const LOOK_EVERY_US: u64 = 3_000_000;

/// What is to be done next.
#[derive(Debug, PartialEq, Eq)]
pub enum Step<'s> {
    /// Record which files there are to be, whole or not at all, and sync that.
    Record(FileSet),
    /// Write.
    Write(Write<'s>),
    /// Sync the file that was written last.
    Sync,
    /// Sync which files there are.
    SyncNames,
    /// Begin to sync the file that was written last, beside the steps that follow. Its end is
    /// [reported](CommitSteps::sync_ended).
    BeginSync,
    /// Wait for the end of that sync.
    EndSync,
    /// Ensure that these files are where the next start looks for them.
    Check(FileSet),
    /// Remove a file for good.
    Remove(u64),
}

/// What follows a step that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failed {
    /// It is to be repeated after a rest. Meanwhile nothing can be written.
    Repeats,
    /// What the file may have lost is written to another one.
    BeginsAnew,
    /// Nobody waits for it.
    PutOff,
}

/// What a commit took.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    /// The commit.
    pub commit: CommitNumber,
    /// Whether everything that readers could see is in it, or in earlier ones. If not, a removal of many keys
    /// was under way, and a file that was judged meanwhile stays (U4).
    pub is_whole: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    RecordBefore,
    Head,
    SyncHead,
    SyncNames,
    Record,
    Records,
    Sync,
    BeginSync,
    EndSync,
    End,
    SyncEnd,
    RecordRest,
    Remove,
    Check,
}

/// G6: a file's head is synced before the file is recorded, and that is done before its first commit.
fn begin_file() -> [Act; 5] {
    match fault!(RecordedBeforeItsHeadIsSynced) {
        false => [Act::RecordBefore, Act::Head, Act::SyncHead, Act::SyncNames, Act::Record],
        true => [Act::RecordBefore, Act::Head, Act::Record, Act::SyncHead, Act::SyncNames],
    }
}

/// The log writer's steps.
#[derive(Debug)]
pub struct CommitSteps {
    writer: LogWriter,
    kept: Kept,
    cleaning: Cleaning,
    /// A file of which nothing is left to judge.
    cleaned: Option<u64>,
    /// The last commit that was taken.
    taken: Taken,
    /// The bytes of the last commit.
    last_commit: usize,
    /// Whether it has nothing but what is cleaned.
    only_cleans: bool,
    /// What is to be done, in this order.
    acts: VecDeque<Act>,
    /// Whether that is all for what a file may have lost.
    is_anew: bool,
    /// Whether a step failed that is to be repeated, or what is done anew.
    fails: bool,
    /// What is written next, without its records.
    frame: Option<Write<'static>>,
    /// Where its records begin among those that are kept.
    start: usize,
    /// The sync that writes do not wait for covers this commit.
    beside: Option<CommitNumber>,
    /// When everything that was asked for was last synced.
    synced_at: MonotonicUs,
    looked_at: MonotonicUs,
}

impl CommitSteps {
    /// The steps of this log; the first give a new one its file, and so its name.
    pub fn new(mut writer: LogWriter, now: MonotonicUs) -> CommitSteps {
        let is_new = writer.file().is_none();
        let frame = if is_new { writer.open() } else { None };
        let taken = Taken { commit: writer.last_written(), is_whole: true };
        CommitSteps {
            writer,
            kept: Kept::default(),
            cleaning: Cleaning::default(),
            cleaned: None,
            taken,
            last_commit: 0,
            only_cleans: false,
            acts: if is_new { begin_file().into() } else { VecDeque::new() },
            is_anew: false,
            fails: false,
            frame,
            start: 0,
            beside: None,
            synced_at: now,
            looked_at: now,
        }
    }

    /// Where the files of earlier processes have what the log has elsewhere too: it goes with them.
    pub fn skip(&mut self, repeated: BTreeMap<u64, Vec<Range<usize>>>) {
        self.cleaning.skip(repeated);
    }

    /// The log and its files.
    pub fn writer(&self) -> &LogWriter {
        &self.writer
    }

    /// The last commit that was taken.
    pub fn taken(&self) -> CommitNumber {
        self.taken.commit
    }

    /// The last commit that is synced: without records one is as synced as the one before.
    pub fn synced(&self) -> CommitNumber {
        match self.writer.last_synced() == self.writer.last_written() && self.kept.last().is_none() {
            true => self.taken.commit,
            false => self.writer.last_synced(),
        }
    }

    /// When everything that was asked for was last synced.
    pub fn synced_at(&self) -> MonotonicUs {
        self.synced_at
    }

    /// The file that is to be read now, so that it can be cleaned. `live_bytes`: of the store's records. They
    /// take long to be counted: only where there is another file.
    pub fn file_to_read(&mut self, live_bytes: impl FnOnce() -> u64) -> Option<u64> {
        match self.cleaned {
            Some(_) => None,
            None => self.cleaning.begin(&self.writer, live_bytes),
        }
    }

    /// That file's bytes, if it could be read. The error: it cannot be cleaned, so the log keeps it.
    pub fn file_read(&mut self, bytes: Result<Vec<u8>, String>) -> Result<(), String> {
        let read = bytes.inspect_err(|_| self.cleaning.spoil())?;
        self.cleaning.read(read, &self.writer)
    }

    /// Judges some records of the file that is cleaned. `judge` takes records and how many bytes of them are
    /// enough, appends what is still needed, and returns how many bytes it has judged. To be called before
    /// the commit is taken. Returns whether the file is done with.
    pub fn clean(&mut self, judge: impl Fn(&[u8], usize, &mut Vec<u8>) -> usize) -> bool {
        self.assert_idle();
        if self.cleaned.is_some() {
            return false;
        }
        let (kept, least) = (self.kept.records(), self.writer.judged_bytes());
        let judge = |records: &[u8], most: usize| judge(records, most, kept);
        self.cleaned = self.cleaning.step(least, self.last_commit, judge);
        self.cleaned.is_some()
    }

    /// Takes a commit, whose records are appended. Returns whether it has any.
    pub fn take(&mut self, take: impl FnOnce(&mut Vec<u8>) -> Taken) -> bool {
        self.assert_idle();
        self.start = self.kept.end_of_last();
        let cleaned = self.kept.bytes();
        self.taken = take(self.kept.records());
        self.only_cleans = self.kept.bytes() == cleaned;
        self.last_commit = self.kept.bytes() - self.start;
        if self.last_commit == 0 {
            self.note_cleaned();
            return false;
        }
        self.kept.end(self.taken.commit);
        self.frame = self.writer.open();
        if self.frame.is_some() {
            self.acts.extend(begin_file());
        }
        self.acts.push_back(Act::Records);
        true
    }

    /// How the commit that was taken is synced, and those behind it.
    pub fn set_syncs(&mut self, syncs: Syncs) {
        self.writer.set_syncs(syncs);
    }

    /// Syncs if it is time. `is_wanted`: somebody waits for that. `waits`: nothing else is done before.
    pub fn sync(&mut self, now: MonotonicUs, is_wanted: bool, waits: bool) {
        self.assert_idle();
        let wanted = (is_wanted || waits).then(|| self.writer.last_written());
        let Some(commit) = self.writer.is_sync_due(now).or(wanted) else { return };
        if commit == self.writer.last_synced() {
            self.synced_at = now;
        } else if waits || self.writer.syncs() == Syncs::Always || self.writer.is_full() {
            if self.beside.is_some() {
                // The system reports an error of a file once: whoever syncs it besides might not see it.
                self.acts.push_back(Act::EndSync);
            }
            self.acts.push_back(Act::Sync);
        } else if self.beside.is_none() {
            self.acts.push_back(Act::BeginSync);
        }
    }

    /// Closes a full file, and removes those that nothing is needed of. `is_last`: nothing follows.
    pub fn tidy(&mut self, now: MonotonicUs, is_last: bool) {
        self.assert_idle();
        let end = if is_last { self.writer.finish() } else { self.writer.close() };
        if end.is_some() {
            self.frame = end;
            self.acts.extend([Act::End, Act::SyncEnd]);
        }
        self.remove_next();
        if now.since(self.looked_at) >= LOOK_EVERY_US {
            self.looked_at = now;
            self.acts.push_back(Act::Check);
        }
    }

    fn remove_next(&mut self) {
        if self.writer.to_remove().is_some() {
            self.writer.leave();
            self.acts.extend([Act::RecordRest, Act::Remove]);
        }
    }

    /// What is to be done next. The same until its result is reported.
    pub fn step(&mut self) -> Option<Step<'_>> {
        let step = match *self.acts.front()? {
            Act::RecordBefore => Step::Record(self.writer.file_set().before(self.begun_file())),
            Act::Record | Act::RecordRest => Step::Record(self.writer.file_set()),
            Act::Head | Act::End => Step::Write(self.frame.clone().expect("a file begins or ends")),
            Act::Records => Step::Write(self.block()),
            Act::SyncHead | Act::Sync | Act::SyncEnd => Step::Sync,
            Act::SyncNames => Step::SyncNames,
            Act::BeginSync => Step::BeginSync,
            Act::EndSync => Step::EndSync,
            Act::Remove => Step::Remove(self.file_to_go()),
            Act::Check => Step::Check(self.writer.file_set()),
        };
        Some(step)
    }

    fn begun_file(&self) -> u64 {
        self.frame.as_ref().expect("a file begins").file
    }

    fn file_to_go(&self) -> u64 {
        self.writer.to_remove().expect("a file goes")
    }

    /// The block of the last commit that is kept, with the records from `start` on.
    fn block(&mut self) -> Write<'_> {
        let records = self.kept.from(self.start);
        if self.frame.is_none() {
            let commit = self.kept.last().expect("it is kept");
            let Write { file, at, head, padding, .. } = self.writer.begin(commit, records);
            self.frame = Some(Write { file, at, head, records: &[], padding });
        }
        let Write { file, at, head, padding, .. } = self.frame.clone().expect("it was begun");
        Write { file, at, head, records, padding }
    }

    /// The step was carried out.
    pub fn done(&mut self, now: MonotonicUs) {
        match self.acts.pop_front().expect("a step was to be carried out") {
            Act::Head | Act::End => self.frame = None,
            Act::Records => {
                self.frame = None;
                let bytes = self.writer.written();
                if !self.only_cleans || self.is_anew {
                    self.cleaning.note_others(bytes);
                }
                self.note_cleaned();
            }
            Act::Sync => self.note_synced(self.writer.last_written(), now),
            Act::BeginSync => self.beside = Some(self.writer.last_written()),
            Act::EndSync => {
                self.end_beside(now);
                if self.writer.last_synced() == self.writer.last_written() {
                    self.acts.pop_front_if(|act| *act == Act::Sync);
                }
            }
            Act::Remove => {
                self.writer.removed(self.file_to_go());
                self.remove_next();
            }
            _ => {}
        }
        self.is_anew &= !self.acts.is_empty();
        self.fails &= self.is_anew;
    }

    /// Whether nothing can be written since a step failed that is repeated.
    pub fn fails(&self) -> bool {
        self.fails
    }

    /// The step failed. Nothing of it is certain.
    pub fn failed(&mut self) -> Failed {
        let follows = self.follow_failure();
        self.fails |= follows == Failed::Repeats;
        follows
    }

    fn follow_failure(&mut self) -> Failed {
        let act = *self.acts.front().expect("a step was to be carried out");
        match act {
            _ if self.is_anew => {
                self.begin_anew();
                Failed::Repeats
            }
            Act::SyncHead | Act::SyncNames | Act::Sync | Act::EndSync | Act::SyncEnd => {
                self.give_up();
                Failed::BeginsAnew
            }
            Act::BeginSync | Act::RecordRest | Act::Remove => {
                self.acts.pop_front();
                self.acts.pop_front_if(|next| *next == Act::Remove);
                Failed::PutOff
            }
            _ => Failed::Repeats,
        }
    }

    /// The sync that was begun has ended, and how. To be reported between two steps.
    pub fn sync_ended(&mut self, is_synced: bool, now: MonotonicUs) -> Option<Failed> {
        self.assert_idle();
        if is_synced {
            self.end_beside(now);
            return None;
        }
        self.give_up();
        Some(Failed::BeginsAnew)
    }

    fn end_beside(&mut self, now: MonotonicUs) {
        let commit = self.beside.take().expect("a sync was begun");
        self.note_synced(commit, now);
    }

    fn note_synced(&mut self, commit: CommitNumber, now: MonotonicUs) {
        self.writer.synced(commit, now);
        self.kept.synced(self.writer.last_synced());
        self.synced_at = now;
    }

    /// A file could not be synced. G5: it never is again.
    fn give_up(&mut self) {
        self.beside = None;
        if !fault!(FailedSyncIsRepeated) {
            self.begin_anew();
        } else if self.acts.front() == Some(&Act::EndSync) {
            self.acts.pop_front();
        }
    }

    /// The file that was written last is given up, and what it may have lost goes to a new one.
    fn begin_anew(&mut self) {
        self.writer.give_up_file();
        self.frame = self.writer.open();
        self.is_anew = true;
        self.acts.clear();
        self.acts.extend(begin_file());
        if self.kept.last().is_some() {
            self.start = 0;
            self.acts.extend([Act::Records, Act::Sync]);
        }
    }

    /// The file that was judged may go once what was needed of it is synced, if no removal of many keys was
    /// under way.
    fn note_cleaned(&mut self) {
        if (self.taken.is_whole || fault!(FileGoesBeforeFlushIsWhole))
            && let Some(file) = self.cleaned.take()
        {
            self.writer.cleaned(file, self.writer.last_written());
        }
    }

    fn assert_idle(&self) {
        assert!(self.acts.is_empty(), "one thing after the other: {:?}", self.acts);
    }
}
