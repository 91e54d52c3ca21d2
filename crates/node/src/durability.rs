//! What the node's clients learn of its durable log.

use crate::lease::Lease;
use sidle_types::{CommitNumber, NodeId};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// The state of the durable log, which its writer keeps. A node without one has the default.
#[derive(Debug, Default)]
pub struct Durability {
    /// Whether there is a durable log.
    pub is_on: AtomicBool,
    /// The bytes of the log's files.
    pub file_bytes: AtomicU64,
    /// How many files there are.
    pub files: AtomicU64,
    /// The last commit that is synced.
    synced: AtomicU64,
    /// Somebody waits for the sync of this commit.
    wanted: AtomicU64,
    /// When the last sync ended, in seconds since the Unix epoch.
    pub synced_at_seconds: AtomicU64,
    /// What was recovered at the start: values.
    pub recovered_values: AtomicU64,
    /// How many copies of the log count, at other nodes, and which nodes.
    copies: AtomicU64,
    copies_at: Mutex<Vec<NodeId>>,
    /// Until when replies may be sent.
    pub lease: Lease,
    /// It cannot be written.
    failure: Trouble,
    /// It is written, and nothing of that becomes safe.
    held_up: Trouble,
}

/// What hinders the log, if anything does.
#[derive(Debug, Default)]
struct Trouble {
    is_there: AtomicBool,
    why: Mutex<String>,
}

impl Trouble {
    /// It is there for this reason, or is over. Whether it was there.
    fn set(&self, why: Option<&str>) -> bool {
        let mut kept = self.why.lock().unwrap_or_else(PoisonError::into_inner);
        kept.clear();
        kept.push_str(why.unwrap_or_default());
        self.is_there.swap(why.is_some(), Ordering::AcqRel)
    }

    #[inline]
    fn is_there(&self) -> bool {
        self.is_there.load(Ordering::Acquire)
    }

    #[inline]
    fn why(&self) -> Option<String> {
        self.is_there().then(|| self.why.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

impl Durability {
    /// The log cannot be written for this reason, or can be again.
    pub fn set_failure(&self, why: Option<&str>) {
        self.failure.set(why);
    }

    /// Whether the log cannot be written.
    pub fn fails(&self) -> bool {
        self.failure.is_there()
    }

    /// Why the log cannot be written, if it cannot.
    pub fn failure(&self) -> Option<String> {
        self.failure.why()
    }

    /// Nothing that is written becomes safe for this reason, or does again. Whether it was held up.
    pub(crate) fn show_held_up(&self, why: Option<&str>) -> bool {
        self.held_up.set(why)
    }

    /// Why nothing that is written becomes safe, if that is so.
    pub fn held_up(&self) -> Option<String> {
        self.held_up.why()
    }

    /// Whether writes are refused, whatever copies there are to be.
    pub(crate) fn is_hindered(&self) -> bool {
        self.failure.is_there() || self.held_up.is_there()
    }

    /// The error for a command that writes, while the log cannot be written, or nothing in it becomes safe,
    /// or it has fewer copies than this: error code first.
    #[inline]
    pub(crate) fn refuses_writes(&self, least_copies: u64) -> Option<String> {
        let has_few = self.copies() < least_copies;
        (has_few || self.is_hindered()).then(|| self.why_writes_are_refused(has_few)).flatten()
    }

    #[cold]
    fn why_writes_are_refused(&self, has_few: bool) -> Option<String> {
        let failure = self.failure().map(|why| format!("MISCONF Errors writing to the durable log: {why}"));
        failure
            .or_else(|| Some(format!("NOREPLICAS {}", self.held_up()?)))
            .or_else(|| has_few.then(|| "NOREPLICAS Not enough good replicas to write.".to_owned()))
    }

    /// The copies of the log that count are at these nodes.
    pub fn show_copies(&self, at: Vec<NodeId>) {
        self.copies.store(at.len() as u64, Ordering::Relaxed);
        *self.copies_at.lock().unwrap_or_else(PoisonError::into_inner) = at;
    }

    /// How many copies of the log count, at other nodes.
    #[inline]
    pub fn copies(&self) -> u64 {
        self.copies.load(Ordering::Relaxed)
    }

    /// At which nodes.
    pub(crate) fn copies_at(&self) -> Vec<NodeId> {
        self.copies_at.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Everything up to this commit is synced.
    pub fn note_synced(&self, commit: CommitNumber, at_seconds: u64) {
        self.synced_at_seconds.store(at_seconds, Ordering::Relaxed);
        self.synced.fetch_max(commit.0, Ordering::Release);
    }

    /// The last commit that is synced.
    pub fn synced(&self) -> CommitNumber {
        CommitNumber(self.synced.load(Ordering::Acquire))
    }

    /// Whether everything up to this commit is synced.
    pub(crate) fn is_synced(&self, commit: CommitNumber) -> bool {
        self.synced() >= commit
    }

    /// The log is to be synced up to this commit.
    pub fn want_synced(&self, commit: CommitNumber) {
        self.wanted.fetch_max(commit.0, Ordering::Release);
    }

    /// Whether anybody waits for a sync.
    pub fn is_sync_wanted(&self) -> bool {
        self.wanted.load(Ordering::Acquire) > self.synced().0
    }
}
