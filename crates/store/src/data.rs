//! The data: a log of records, and its index. Every reader and writer borrows both, and finds records under a
//! pin.

use crate::address::Address;
use crate::bucket::Word;
use crate::epoch::{Participant, Pinned};
use crate::index::{Index, IndexMemory};
use crate::interest::Interest;
use crate::log::{Log, LogHead};
use crate::pending_tombstones::PendingTombstones;
use crate::record::Record;
use sidle_types::{HashedKey, KeyHash, Slot, Version};
use std::sync::Arc;

/// The log and the index into it.
pub(crate) struct Data {
    pub(crate) log: Arc<Log>,
    pub(crate) index: Index,
    pub(crate) pending_tombstones: PendingTombstones,
    pub(crate) interest: Interest,
}

/// A key's entry.
#[derive(Clone, Copy, Debug)]
pub enum Entry<'g> {
    /// Nothing.
    Absent,
    /// The key was removed; with the version of its last value (its own without one). Or, with version 0,
    /// another node reported the key absent.
    Tombstone(Version),
    /// A value; it may be past its deadline.
    Value(Record<'g>),
}

impl<'g> Entry<'g> {
    /// The value, if the entry is one.
    pub fn value(self) -> Option<Record<'g>> {
        match self {
            Entry::Value(record) => Some(record),
            Entry::Absent | Entry::Tombstone(_) => None,
        }
    }
}

impl Data {
    /// See [`Store::pin`](crate::Store::pin).
    #[inline]
    pub(crate) fn pin(&self) -> Guard<'_> {
        let participant = self.log.epochs.participant();
        self.log.epochs.pin(participant);
        Guard { data: self, participant, _not_send: std::marker::PhantomData }
    }

    /// See [`Store::log_head`](crate::Store::log_head).
    pub(crate) fn log_head(&self) -> LogHead {
        LogHead::new(self.log.clone())
    }

    pub(crate) fn index_memory(&self) -> IndexMemory<'_> {
        IndexMemory { index: &self.index, epochs: &self.log.epochs, segments: &self.log.segments }
    }

    /// The hash of the key that an entry is for.
    #[inline]
    pub(crate) fn hash_of<'p>(&'p self, word: Word<'p>, pin: Pinned<'p>) -> u64 {
        KeyHash::of_key(self.log.record(word.address(), pin).key()).0
    }

    /// A key's entry.
    #[inline]
    pub(crate) fn look_up<'p>(&'p self, key: HashedKey<'_>, pin: Pinned<'p>) -> Entry<'p> {
        let mut shape = None;
        let found = self.index.slot(key.slot()).find(key.hash().0, pin, |word| {
            shape = self.log.shape_with_key(word.address(), key.bytes(), pin);
            shape.is_some()
        });
        let (Some((_, word)), Some(shape)) = (found, shape) else { return Entry::Absent };
        let record = self.log.record_with_shape(word.address(), shape, pin);
        match word.kind().is_tombstone {
            true => Entry::Tombstone(record.version()),
            false => Entry::Value(record),
        }
    }
}

/// A thread's pin on the store; records found through it stay readable while it exists.
pub struct Guard<'s> {
    pub(crate) data: &'s Data,
    participant: &'s Participant,
    _not_send: std::marker::PhantomData<*const ()>,
}

impl Guard<'_> {
    #[inline]
    pub(crate) fn pinned(&self) -> Pinned<'_> {
        Pinned::by(self)
    }

    /// A key's entry. Takes no lock; waits for a change of several keys in the slot. The thread of such a
    /// change would wait for ever.
    #[inline]
    pub fn get(&self, key: HashedKey<'_>) -> Entry<'_> {
        self.data.index.slot(key.slot()).lock.await_turn();
        self.data.look_up(key, self.pinned())
    }

    /// Starts loading the key's bucket; reads its slot.
    #[inline]
    pub fn prefetch_bucket(&self, slot: Slot, hash: KeyHash) {
        self.data.index.slot(slot).prefetch(hash.0);
    }

    /// Starts loading the records that may be the key's; reads its bucket.
    #[inline]
    pub fn prefetch_record(&self, slot: Slot, hash: KeyHash) {
        let prefetch = |address: Address| self.data.log.prefetch(address);
        self.data.index.slot(slot).find(hash.0, self.pinned(), |word| {
            prefetch(word.address());
            false
        });
    }
}

impl Drop for Guard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.participant.unpin();
    }
}

impl std::fmt::Debug for Guard<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guard").finish_non_exhaustive()
    }
}
