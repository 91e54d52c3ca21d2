//! How far the node has read what it takes over from dead nodes.

use sidle_cluster::TakeoverProgress;
use sidle_types::{LogId, NodeId};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How far an attempt has come: it first fetches, where it has to, then reads, then puts in what it found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct HowFar {
    put_bytes: u64,
    read_bytes: u64,
    fetched_bytes: u64,
}

/// What is read, and where that comes from.
#[derive(Clone, Copy, Debug, Default)]
struct What {
    log: Option<LogId>,
    /// Who is asked for the copy, or sends it.
    fetched_from: Option<NodeId>,
    /// How far the last attempt came, if that failed.
    failed_at: Option<HowFar>,
}

/// The same, while it is read. The default is a node that takes nothing over.
#[derive(Debug, Default)]
pub struct TakingOver {
    is_on: AtomicBool,
    what: Mutex<What>,
    fetched_bytes: AtomicU64,
    fetch_bytes: AtomicU64,
    read_bytes: AtomicU64,
    copy_bytes: AtomicU64,
    put_bytes: AtomicU64,
    found_bytes: AtomicU64,
    /// What earlier ones have put in.
    put_before: AtomicU64,
}

impl TakingOver {
    /// A copy of this log is fetched, or is read where that is here already. `failed_at`: how far the last
    /// attempt came.
    pub fn begin(&self, log: LogId, failed_at: Option<HowFar>) {
        *self.what() = What { log: Some(log), fetched_from: None, failed_at };
        let fetching = [&self.fetched_bytes, &self.fetch_bytes];
        let reading = [&self.read_bytes, &self.copy_bytes, &self.put_bytes, &self.found_bytes];
        fetching.into_iter().chain(reading).for_each(|bytes| bytes.store(0, Ordering::Relaxed));
        self.is_on.store(true, Ordering::Relaxed);
    }

    /// This node is asked for its copy, or sends it. It has so many bytes, or 0 until that is known.
    pub fn note_source(&self, node: NodeId, bytes: u64) {
        self.what().fetched_from = Some(node);
        self.fetch_bytes.store(bytes, Ordering::Relaxed);
    }

    /// So many bytes of the copy have been fetched, in all.
    pub fn note_fetched(&self, bytes: u64) {
        self.fetched_bytes.store(bytes, Ordering::Relaxed);
    }

    /// So many bytes more are to be read, beyond those that have been.
    pub fn note_left(&self, bytes: u64) {
        self.copy_bytes.store(self.read_bytes.load(Ordering::Relaxed) + bytes, Ordering::Relaxed);
    }

    /// So many more bytes have been read.
    pub fn note_read(&self, bytes: u64) {
        self.read_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// So many more bytes were found, and are to be put in.
    pub fn note_found(&self, bytes: u64) {
        self.found_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// So many bytes have been put in, in all.
    pub fn note_put(&self, bytes: u64) {
        self.put_bytes.store(bytes, Ordering::Relaxed);
    }

    /// It is over, and came so far.
    pub fn end(&self) -> HowFar {
        let far = self.how_far();
        self.put_before.fetch_add(self.put_bytes.swap(0, Ordering::Relaxed), Ordering::Relaxed);
        self.is_on.store(false, Ordering::Relaxed);
        far
    }

    fn how_far(&self) -> HowFar {
        let bytes = |bytes: &AtomicU64| bytes.load(Ordering::Relaxed);
        HowFar {
            put_bytes: bytes(&self.put_bytes),
            read_bytes: bytes(&self.read_bytes),
            fetched_bytes: bytes(&self.fetched_bytes),
        }
    }

    fn what(&self) -> MutexGuard<'_, What> {
        // Nobody panics while it is locked.
        self.what.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes that have been put in since the node started.
    pub fn put_in_all(&self) -> u64 {
        self.put_before.load(Ordering::Relaxed) + self.put_bytes.load(Ordering::Relaxed)
    }

    /// How far it is, if anything is taken over.
    pub fn progress(&self) -> Option<TakeoverProgress> {
        let bytes = |bytes: &AtomicU64| bytes.load(Ordering::Relaxed);
        let What { log, fetched_from, failed_at } = *self.what();
        self.is_on.load(Ordering::Relaxed).then(|| TakeoverProgress {
            log,
            fetched_from,
            fetched_bytes: bytes(&self.fetched_bytes),
            fetch_bytes: bytes(&self.fetch_bytes),
            read_bytes: bytes(&self.read_bytes),
            copy_bytes: bytes(&self.copy_bytes),
            put_bytes: bytes(&self.put_bytes),
            found_bytes: bytes(&self.found_bytes),
            is_past_failure: failed_at.is_some_and(|failed_at| self.how_far() > failed_at),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_is_past_the_failure_of_the_last_one_once_it_has_come_further() {
        let (taking_over, log) = (TakingOver::default(), LogId([7; 16]));
        let is_past = || taking_over.progress().expect("it is on").is_past_failure;
        taking_over.begin(log, None);
        taking_over.note_fetched(10);
        assert!(!is_past(), "nothing has failed");
        let failed_at = taking_over.end();
        assert_eq!(taking_over.progress(), None);
        taking_over.begin(log, Some(failed_at));
        for (bytes, is_further) in [(0, false), (10, false), (11, true)] {
            taking_over.note_fetched(bytes);
            assert_eq!(is_past(), is_further);
        }
        taking_over.begin(log, Some(failed_at));
        taking_over.note_read(1);
        assert!(is_past(), "what was fetched before is read");
    }
}
