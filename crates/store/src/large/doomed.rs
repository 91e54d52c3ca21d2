//! Collections without a key, whose chunks are not counted as dead yet.
//!
//! To end a collection takes constant time: its outline is put here. Whoever cleans first buries what is
//! here, a slice at a time; the lock of cleaning makes it one thread.

use crate::large::chunk::{address_of, record_bytes};
use crate::log::Log;
use sidle_outline::Outline;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Chunks that are buried in one step.
const CHUNKS_PER_SLICE: usize = 256;

/// The doomed collections of a store.
#[derive(Debug, Default)]
pub(crate) struct Doomed {
    outlines: Mutex<VecDeque<Outline>>,
    /// Their number, and of those about to be added; for reading without the lock.
    count: AtomicUsize,
}

impl Doomed {
    fn outlines(&self) -> MutexGuard<'_, VecDeque<Outline>> {
        self.outlines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the chunks of all doomed collections are counted as dead. A collection whose cell was found
    /// empty before is counted here (K3).
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// A collection is about to lose its cell.
    pub(crate) fn announce(&self) {
        self.count.fetch_add(1, Ordering::AcqRel);
    }

    /// It kept its cell.
    pub(crate) fn withdraw(&self) {
        self.count.fetch_sub(1, Ordering::AcqRel);
    }

    /// Adds a collection that was announced.
    pub(crate) fn add(&self, outline: Outline) {
        self.outlines().push_back(outline);
    }

    /// Counts some chunks as dead, and frees their outline's memory; whether there were any. The caller is
    /// pinned, and the only one to bury.
    pub(crate) fn bury_slice(&self, log: &Log) -> bool {
        let Some(mut outline) = self.outlines().pop_front() else { return false };
        let before = outline.memory_bytes();
        for _ in 0..CHUNKS_PER_SLICE {
            let Some(chunk) = outline.take_any() else { break };
            log.bury_chunk(address_of(&chunk).expect("it was published"), record_bytes(&chunk));
        }
        let is_over = outline.memory_bytes() == 0;
        log.segments.index_grew(outline.memory_bytes() as i64 - before as i64);
        match is_over {
            true => self.withdraw(),
            false => self.outlines().push_front(outline),
        }
        true
    }

    /// Passes the outlines to `f`.
    #[cfg(feature = "testing")]
    pub(crate) fn each(&self, f: impl FnMut(&Outline)) {
        self.outlines().iter().for_each(f);
    }
}
