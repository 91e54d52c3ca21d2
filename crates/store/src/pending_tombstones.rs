//! Values that serve as their own tombstones: what becomes of them.
//!
//! A value is struck out where there is no room for a tombstone (see [`SlotGuard::remove`]). The cleaner
//! comes by all ordinary segments and copies only a tombstone of it. A large record has a run of its own,
//! which the cleaner never looks at, and so has a value that lies outside: these are put on a list here, and
//! the cleaner goes through that before anything else.
//!
//! Ownership: whoever removes adds, under the slot's lock; whoever cleans takes.

use crate::address::Address;
use crate::bucket::Word;
use crate::config::OutOfMemory;
use crate::log::LogHead;
use crate::record::{Draft, Record};
use crate::segment::Purpose;
use crate::slot_table::Place;
use crate::store::Store;
use crate::writer::{SlotGuard, counted};
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
struct Large {
    slot: Slot,
    hash: KeyHash,
    address: Address,
}

impl PendingTombstones {
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    fn large(&self) -> MutexGuard<'_, VecDeque<Large>> {
        self.large.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, large: Large) {
        let mut all = self.large();
        all.push_back(large);
        self.count.store(all.len(), Ordering::Relaxed);
    }

    fn take(&self) -> Option<Large> {
        let mut all = self.large();
        let taken = all.pop_front();
        self.count.store(all.len(), Ordering::Relaxed);
        taken
    }
}

impl SlotGuard<'_> {
    /// Turns a value's entry into a tombstone; the record stays where it is.
    #[cold]
    pub(crate) fn strike_out(&self, hash: KeyHash, place: Place<'_>, word: Word<'_>) {
        let (store, record, pending_tombstones) =
            (self.store(), self.record(word), word.pending_tombstones());
        store.log.note_spare(word.address(), record);
        place.bucket.store(place.index, pending_tombstones);
        self.table().count(Some(counted(word, record)), Some(counted(pending_tombstones, record)));
        if store.log.is_large(word.address()) || record.run().is_some() {
            store.pending_tombstones.add(Large { slot: self.slot(), hash, address: word.address() });
        }
    }

    /// Gives a value that was struck out a tombstone of its own, in the cleaner's head. The caller counts the
    /// value's record as dead.
    pub(crate) fn shrink(
        &self,
        head: &mut LogHead,
        place: Place<'_>,
        word: Word<'_>,
        record: Record<'_>,
    ) -> Result<(), OutOfMemory> {
        let tombstone = Draft::tombstone(record.key(), record.version());
        let shrunk = word.moved_to(head.append(&tombstone, Purpose::Survivor)?);
        place.bucket.store(place.index, shrunk);
        self.table().count(Some(counted(word, record)), Some(counted(shrunk, self.record(shrunk))));
        Ok(())
    }
}

impl Store {
    /// Gives back what the large values take that were struck out, as far as there is room for their
    /// tombstones.
    pub(crate) fn shrink_large(&self, head: &mut LogHead) -> Result<(), OutOfMemory> {
        while let Some(large) = self.pending_tombstones.take() {
            let slot = self.lock_slot_now(large.slot);
            let is_it = |word: Word<'_>| word.address() == large.address && word.kind().is_tombstone;
            let Some((place, word)) = slot.table().find(large.hash.0, slot.pinned(), is_it) else { continue };
            let record = slot.record(word);
            match slot.shrink(head, place, word, record) {
                Ok(()) => self.log.bury(word, record),
                Err(out) => {
                    self.pending_tombstones.add(large);
                    return Err(out);
                }
            }
        }
        Ok(())
    }
}
