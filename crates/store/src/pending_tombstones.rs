//! Values that serve as their own tombstones.
//!
//! A value is struck out if there is no room for a tombstone (see
//! [`SlotGuard::remove`](crate::SlotGuard::remove)). The cleaner visits all ordinary segments, and copies
//! only its tombstone. It never visits the run of a large record or of an outside value: those are listed
//! here, and the cleaner processes the list first.
//!
//! Ownership: removals add, under the slot's lock; the cleaner takes.

use crate::address::Address;
use sidle_types::{KeyHash, Slot};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The large struck-out values.
#[derive(Debug, Default)]
pub(crate) struct PendingTombstones {
    large: Mutex<VecDeque<Large>>,
    /// Their number, for reading without the lock.
    count: AtomicUsize,
}

/// The entry's place; it may have been replaced since.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Large {
    pub(crate) slot: Slot,
    pub(crate) hash: KeyHash,
    pub(crate) address: Address,
}

impl PendingTombstones {
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    fn large(&self) -> MutexGuard<'_, VecDeque<Large>> {
        self.large.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, large: Large) {
        let mut all = self.large();
        all.push_back(large);
        self.count.store(all.len(), Ordering::Relaxed);
    }

    pub(crate) fn take(&self) -> Option<Large> {
        let mut all = self.large();
        let taken = all.pop_front();
        self.count.store(all.len(), Ordering::Relaxed);
        taken
    }
}
