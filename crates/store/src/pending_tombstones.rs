//! Values that serve as their own tombstones: what becomes of them.
//!
//! A value is struck out where there is no room for a tombstone (see
//! [`SlotGuard::remove`](crate::SlotGuard::remove)). The cleaner comes by all ordinary segments and copies
//! only a tombstone of it. A large record has a run of its own, which the cleaner never looks at, and so has
//! a value that lies outside: these are put on a list here, and the cleaner goes through that before anything
//! else.
//!
//! Ownership: whoever removes adds, under the slot's lock; whoever cleans takes.

use crate::address::Address;
use sidle_types::{KeyHash, Slot};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The large values that were struck out.
#[derive(Debug, Default)]
pub(crate) struct PendingTombstones {
    large: Mutex<VecDeque<Large>>,
    /// How many there are, to be read without the lock.
    count: AtomicUsize,
}

/// Where the entry was; it may have been replaced since.
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
