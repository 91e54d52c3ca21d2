//! Group commits: what of the store's changes its durable log has.
//!
//! Purpose: whoever acknowledges a change, or a value that he has read, first learns which commit has it, and
//! waits for that. One log writer makes the commits. It takes what all heads wrote since the last one, and
//! reports the commit as safe when it is as safe as was asked for.
//!
//! Invariants:
//! - U1: a change is in the buffer of the log before any reader can see it, and its slot names the commit
//!   that it belongs to, or a later one.
//! - U2: a change of several records is in one commit, or in none.
//! - U3: commits are numbered in order, and one has all that was in the buffers when the number moved on.
//! - U4: a change in steps, each visible at once, is in one commit too. While it is under way no commit is
//!   safe, and then none before the one that has it: whoever has seen a part of it waits for that.
//! - U5: what is entered aside is in no earlier commit than what was entered before it. So a note of what
//!   arrived has its records: the log writer takes the buffer aside first.
//!
//! U1 follows from the order of three steps, under the slot's lock: append to the buffer, load the number of
//! the commit, publish. The log writer raises the number before it takes a buffer. If it has taken the buffer
//! before the append, then the load comes after that too, by the buffer's lock, and finds the raised number.
//! Otherwise the record is in this commit, and the number found is this one's or a later one's.
//!
//! U4: a step loads the open number after the change was announced, and the log writer looks for announced
//! changes after it has raised that number. One of the two sees the other.

use crate::index::slots_of;
use crate::record::Record;
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering};
use sidle_types::{CommitNumber, PositionRange, SLOT_COUNT, Slot, fault};
use std::sync::Arc;

/// Records that a head has written, and no commit has.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    records: Mutex<Vec<u8>>,
}

impl Buffer {
    fn records(&self) -> MutexGuard<'_, Vec<u8>> {
        #[cfg(loom)]
        return self.records.lock().expect("no thread of a model panics");
        #[cfg(not(loom))]
        self.records.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// The commits of a store with a durable log.
#[derive(Debug)]
pub struct Commits {
    /// The commit that takes what is written now.
    open: AtomicU64,
    /// The last one that is safe.
    safe: AtomicU64,
    /// By slot: the last commit that changes it.
    latest: Box<[AtomicU64]>,
    /// One for each head, and before them one for what is removed without a head.
    buffers: Mutex<Vec<Arc<Buffer>>>,
    aside: Arc<Buffer>,
    /// The bytes in the buffers.
    buffered: AtomicU64,
    /// How many changes in steps are under way.
    in_steps: AtomicU64,
    /// No commit before this one is safe: it has the last such change.
    whole_from: AtomicU64,
}

impl Commits {
    pub(crate) fn new() -> Commits {
        Commits::for_slots(usize::from(SLOT_COUNT))
    }

    pub(crate) fn for_slots(slots: usize) -> Commits {
        let aside = Arc::<Buffer>::default();
        Commits {
            open: AtomicU64::new(1),
            safe: AtomicU64::new(0),
            latest: (0..slots).map(|_| AtomicU64::new(0)).collect(),
            buffers: Mutex::new(vec![Arc::clone(&aside)]),
            aside,
            buffered: AtomicU64::new(0),
            in_steps: AtomicU64::new(0),
            whole_from: AtomicU64::new(0),
        }
    }

    fn buffers(&self) -> MutexGuard<'_, Vec<Arc<Buffer>>> {
        #[cfg(loom)]
        return self.buffers.lock().expect("no thread of a model panics");
        #[cfg(not(loom))]
        self.buffers.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The buffer of a new head.
    pub(crate) fn join(&self) -> Arc<Buffer> {
        let buffer = Arc::<Buffer>::default();
        self.buffers().push(Arc::clone(&buffer));
        buffer
    }

    /// Moves one change's records into the head's buffer. The change is in these slots, which the caller has
    /// locked, and whose readers see nothing of it before this returns (U1).
    pub(crate) fn enter(&self, buffer: &Buffer, change: &mut Vec<u8>, slots: impl Iterator<Item = Slot>) {
        self.buffered.fetch_add(change.len() as u64, Ordering::Relaxed);
        buffer.records().append(change);
        let open = self.open.load(Ordering::Acquire);
        slots.for_each(|slot| self.latest[usize::from(slot.number())].store(open, Ordering::Release));
    }

    /// The same, of a change without a head.
    pub(crate) fn enter_aside(&self, change: &mut Vec<u8>, slot: Slot) {
        self.enter(&self.aside, change, std::iter::once(slot));
    }

    /// The same of records that are about no slot.
    pub(crate) fn enter_unlocked(&self, records: &mut Vec<u8>) {
        self.enter(&self.aside, records, std::iter::empty());
    }

    /// A change in steps begins (U4).
    pub(crate) fn begin_steps(&self) {
        self.in_steps.fetch_add(1, Ordering::SeqCst);
    }

    /// One of its steps changes this slot, which the caller has locked, and whose readers see nothing of the
    /// step before this returns.
    pub(crate) fn note_step(&self, slot: Slot) {
        self.latest[usize::from(slot.number())].store(self.open.load(Ordering::SeqCst), Ordering::Release);
    }

    /// The change is over, and these are its records.
    pub(crate) fn end_steps(&self, change: &mut Vec<u8>) {
        if !change.is_empty() {
            self.enter(&self.aside, change, std::iter::empty());
            self.whole_from.fetch_max(self.open.load(Ordering::SeqCst), Ordering::SeqCst);
        }
        let before = self.in_steps.fetch_sub(1, Ordering::SeqCst);
        assert!(before > 0, "U4: it had begun");
    }

    /// For the log writer: whether everything that readers can see is in this commit, or earlier ones, once
    /// those that were taken before are.
    pub fn is_whole(&self, number: CommitNumber) -> bool {
        self.in_steps.load(Ordering::SeqCst) == 0 && self.whole_from.load(Ordering::SeqCst) <= number.0
    }

    /// The commit that takes what is written now: it, or an earlier one, has everything that can be read.
    pub fn open(&self) -> CommitNumber {
        CommitNumber(self.open.load(Ordering::Acquire))
    }

    /// The last commit that changes this slot. Asked after a look-up, that commit has what was found, absence
    /// included.
    #[inline]
    pub fn latest_of(&self, slot: Slot) -> CommitNumber {
        CommitNumber(self.latest[usize::from(slot.number())].load(Ordering::Acquire))
    }

    /// The last commit that changes the range.
    pub fn latest_in(&self, range: PositionRange) -> CommitNumber {
        slots_of(range).map(|slot| self.latest_of(slot)).max().unwrap_or_default()
    }

    /// The last safe commit.
    #[inline]
    pub fn safe(&self) -> CommitNumber {
        CommitNumber(self.safe.load(Ordering::Acquire))
    }

    /// The last commit that has anything of what was written before this call.
    pub fn newest(&self) -> CommitNumber {
        // In this order: what is taken in between makes it later, never earlier.
        let is_empty = self.buffered.load(Ordering::Acquire) == 0;
        let open = self.open.load(Ordering::Acquire);
        CommitNumber(open - u64::from(is_empty))
    }

    /// How many bytes wait for the log writer.
    pub fn buffered_bytes(&self) -> u64 {
        self.buffered.load(Ordering::Relaxed)
    }

    /// For a store that was recovered, before it is used: commits go on behind this one. If it is not known
    /// to be safe, whoever reads anything waits for it.
    pub fn resume(&self, last: CommitNumber, is_safe: bool) {
        self.open.store(last.0 + 1, Ordering::Release);
        if is_safe {
            self.safe.store(last.0, Ordering::Release);
        } else {
            self.latest.iter().for_each(|latest| latest.store(last.0, Ordering::Release));
        }
    }

    /// For the log writer: appends the records of everything written since the last call to `records`; the
    /// number of their commit.
    pub fn take(&self, records: &mut Vec<u8>) -> CommitNumber {
        // U3: before the first buffer.
        let number = CommitNumber(self.open.fetch_add(1, Ordering::SeqCst));
        let before = records.len();
        let mut buffers = self.buffers();
        for buffer in buffers.iter() {
            records.append(&mut buffer.records());
        }
        // Those of heads that are gone.
        buffers.retain(|buffer| Arc::strong_count(buffer) > 1 || !buffer.records().is_empty());
        self.buffered.fetch_sub((records.len() - before) as u64, Ordering::Relaxed);
        number
    }

    /// For the log writer: this commit, and all before, are safe; unless they have a part of a change whose
    /// rest is not (U4). Whether they are.
    pub fn set_safe(&self, number: CommitNumber) -> bool {
        let is_whole = self.is_whole(number);
        if is_whole {
            self.safe.fetch_max(number.0, Ordering::AcqRel);
        }
        is_whole
    }
}

/// What a head writes for the durable log.
pub(crate) struct Logging {
    /// What the log writer takes from.
    pub(crate) buffer: Arc<Buffer>,
    /// The records of the change under way.
    pub(crate) change: Vec<u8>,
    /// The change that is held back is logged as a whole already.
    pub(crate) is_over: bool,
}

impl Logging {
    pub(crate) fn new(commits: &Commits) -> Logging {
        Logging { buffer: commits.join(), change: Vec::new(), is_over: false }
    }

    /// Whether the change enters the buffer with a later one.
    pub(crate) fn is_late(&self) -> bool {
        fault!(PublishedBeforeLogged) && first_record(&self.change) == self.change.len()
    }

    /// Cuts off what enters the buffer with a later change: nothing. `is_whole`: these are the records of a
    /// change of several (U2).
    pub(crate) fn split(&mut self, is_whole: bool) -> Vec<u8> {
        match is_whole && fault!(HalfAnExec) {
            true => self.change.split_off(first_record(&self.change)),
            false => Vec::new(),
        }
    }

    #[inline]
    pub(crate) fn add(&mut self, record: &[u8]) {
        if !self.is_over {
            self.change.extend_from_slice(record);
        }
    }
}

/// The bytes of the first of these records.
fn first_record(records: &[u8]) -> usize {
    Record::check_logged(records).map_or(records.len(), |(record, _)| record.in_log().len())
}
