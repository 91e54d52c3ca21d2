//! The data: a log of records, and its index. Every reader and writer borrows both, and finds records under a
//! pin.

use crate::address::Address;
use crate::beside::Beside;
use crate::bucket::Word;
use crate::epoch::{Participant, Pinned};
use crate::imports::Imports;
use crate::index::{Index, IndexMemory};
use crate::interest::Interest;
use crate::large::registry::Collections;
use crate::log::{Log, LogHead};
use crate::pending_tombstones::PendingTombstones;
use crate::record::Record;
use sidle_outline::{Chunks, Outline};
use sidle_types::{HashedKey, KeyHash, Slot, Version};
use std::sync::Arc;

/// The log and the index into it.
pub(crate) struct Data {
    pub(crate) log: Arc<Log>,
    pub(crate) index: Index,
    pub(crate) pending_tombstones: PendingTombstones,
    pub(crate) interest: Interest,
    pub(crate) collections: Arc<Collections>,
    pub(crate) imports: Imports,
    pub(crate) beside: Beside,
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
    /// The large collection's head, if the entry is one.
    pub(crate) fn head(self) -> Option<Record<'g>> {
        self.value().filter(Record::is_large)
    }

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

    /// A head for what the durable log has already.
    pub(crate) fn cleaners_head(&self) -> LogHead {
        LogHead::unlogged(self.log.clone())
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

impl Data {
    /// The outline of the collection with this head, if that is its head still (K2).
    pub(crate) fn outline_of(&self, head: Record<'_>) -> Option<Outline> {
        let (id, offset) = (head.collection()?, self.log.offset_of(head));
        self.collections.outline(id, Address::from_offset(offset))
    }

    /// The elements of a published chunk.
    pub(crate) fn chunk_at<'p>(&'p self, address: u64, pin: Pinned<'p>) -> &'p [u8] {
        let record = self.log.record(Address::from_offset(address), pin);
        debug_assert!(record.is_chunk(), "a chunk lies at {address}");
        record.value()
    }
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

    /// A key's entry, with the outline if that is a large collection. Both are of one moment.
    #[inline]
    pub fn get_whole(&self, key: HashedKey<'_>) -> (Entry<'_>, Option<Outline>) {
        loop {
            let entry = self.get(key);
            let Some(head) = entry.head() else { return (entry, None) };
            if let Some(outline) = self.outline(head) {
                return (entry, Some(outline));
            }
            // It was written anew just now, or its index entry is about to be.
            std::thread::yield_now();
        }
    }

    /// The outline of a [large](Record::is_large) value that was found through this guard: of one moment
    /// with it, and not before it was found. None if it was replaced since; then look the key up again.
    pub fn outline(&self, record: Record<'_>) -> Option<Outline> {
        self.data.outline_of(record)
    }

    /// The version of a value that was found through this guard. A large collection changes without its
    /// record, so its version is of now; none if it was replaced since.
    pub fn version_of(&self, record: Record<'_>) -> Option<Version> {
        match record.collection() {
            Some(id) => self.data.collections.read(id, |state| state.version),
            None => Some(record.version()),
        }
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

impl Chunks for Guard<'_> {
    /// The elements of the chunk at this address, of an outline that was found through this guard, or while
    /// this guard existed.
    fn bytes_at(&self, address: u64) -> &[u8] {
        self.data.chunk_at(address, self.pinned())
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
