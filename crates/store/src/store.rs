//! The store itself: look-ups under a pin, and what is counted.

use crate::address::Address;
use crate::bucket::Word;
use crate::cleaner::Cleaning;
use crate::config::{StoreConfig, StoreError};
use crate::epoch::{Participant, Pinned};
use crate::index::{Index, IndexMemory};
use crate::log::{Log, LogHead};
use crate::occupancy::Occupied;
use crate::pending_tombstones::PendingTombstones;
use crate::record::Record;
use sidle_types::{HashedKey, KeyHash, PositionRange, Slot, Version};
use std::sync::{Arc, Mutex};

/// Log-structured memory with a hash index per slot; shared by all threads.
pub struct Store {
    pub(crate) log: Arc<Log>,
    pub(crate) index: Index,
    pub(crate) cleaning: Mutex<Cleaning>,
    pub(crate) pending_tombstones: PendingTombstones,
}

/// What a key has.
#[derive(Clone, Copy, Debug)]
pub enum Entry<'g> {
    /// Nothing.
    Absent,
    /// A mark that the key was removed, with the version of the value that was (its own where there was
    /// none); or, with version 0, that another node said that there is no such key.
    Tombstone(Version),
    /// A value; it may be past its deadline.
    Value(Record<'g>),
}

impl<'g> Entry<'g> {
    /// The value, if that is what the key has.
    pub fn value(self) -> Option<Record<'g>> {
        match self {
            Entry::Value(record) => Some(record),
            Entry::Absent | Entry::Tombstone(_) => None,
        }
    }
}

/// Where the memory is. Bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// What log and index together may take.
    pub limit: u64,
    /// What the log has taken: segments, but for tails that were given back, and the pages of large records.
    pub log_used: u64,
    /// Records that are referred to.
    pub log_live: u64,
    /// What the index has taken beyond its fixed part.
    pub index: u64,
}

impl Store {
    /// Reserves the memory and makes an empty store.
    pub fn new(config: StoreConfig) -> Result<Store, StoreError> {
        config.validate()?;
        Ok(Store {
            log: Arc::new(Log::new(&config)?),
            index: Index::new(),
            cleaning: Mutex::default(),
            pending_tombstones: PendingTombstones::default(),
        })
    }

    /// Whether so little memory is left that writers clean before they write, and marks of absence make way.
    pub fn is_short(&self) -> bool {
        self.log.segments.is_short()
    }

    /// Pins the calling thread: what it finds stays readable until the guard is dropped. Hold it briefly, for
    /// a batch of commands at most: memory is not given back meanwhile. Nests.
    #[inline]
    pub fn pin(&self) -> Guard<'_> {
        let participant = self.log.epochs.participant();
        self.log.epochs.pin(participant);
        Guard { store: self, participant, _not_send: std::marker::PhantomData }
    }

    /// A head of its own for a worker or a replay slot to append to.
    pub fn log_head(&self) -> LogHead {
        LogHead::new(self.log.clone())
    }

    /// How many values there are. Values past their deadline count until they are removed.
    pub fn len(&self) -> u64 {
        self.index.occupied_tables().map(|slot| slot.live()).sum()
    }

    /// Whether there is no value.
    pub fn is_empty(&self) -> bool {
        self.index.occupied_tables().all(|slot| slot.live() == 0)
    }

    /// Starts loading the key's slot. In a pipelined batch: this for every key, then
    /// [`Guard::prefetch_bucket`] for every key, then [`Guard::prefetch_record`], then [`Guard::get`]: each
    /// step waits for what the one before it loads.
    #[inline]
    pub fn prefetch_slot(&self, slot: Slot) {
        crate::memory::prefetch(self.index.slot(slot));
    }

    /// How many values a slot has.
    pub fn count_in_slot(&self, slot: Slot) -> u64 {
        self.index.slot(slot).live()
    }

    /// How many values of a slot have a deadline.
    pub fn expires_in_slot(&self, slot: Slot) -> u64 {
        self.index.slot(slot).expiring()
    }

    /// How many values have a deadline.
    pub fn expiring_len(&self) -> u64 {
        self.index.occupied_tables().map(|slot| slot.expiring()).sum()
    }

    /// How many tombstones there are in the slots that the range touches.
    pub fn tombstones_in(&self, range: PositionRange) -> u64 {
        self.occupied_in(range).map(|slot| self.index.slot(slot).tombstones()).sum()
    }

    /// The highest version given or seen in the slots that the range touches.
    pub fn highest_version(&self, range: PositionRange) -> Version {
        let highest = self.slots_of(range).map(|slot| self.index.slot(slot).version()).max();
        Version(highest.unwrap_or(0))
    }

    /// From here on, versions given in the slots that the range touches are higher than `floor`.
    pub fn raise_version_floor(&self, range: PositionRange, floor: Version) {
        for slot in self.slots_of(range) {
            let table = self.index.slot(slot);
            table.lock.acquire();
            table.raise_version(floor.0);
            table.lock.release();
        }
    }

    /// Where the memory is.
    pub fn memory(&self) -> MemoryUse {
        let segments = &self.log.segments;
        MemoryUse {
            limit: segments.limit_bytes(),
            log_used: segments.taken_bytes(),
            log_live: self.index.occupied_tables().map(|slot| slot.bytes()).sum(),
            index: segments.index_bytes(),
        }
    }

    /// What data and index take, cheap to ask for: `log_used` and `index` of [`memory`](Self::memory)
    /// together.
    pub fn used_bytes(&self) -> u64 {
        self.log.segments.taken_bytes() + self.log.segments.index_bytes()
    }

    /// The slots that a range touches.
    pub(crate) fn slots_of(&self, range: PositionRange) -> impl Iterator<Item = Slot> + use<> {
        let (first, last) = range.slots();
        (first.number()..=last.number()).map(|number| Slot::new(number).expect("between two slots"))
    }

    /// The slots that a range touches and that have entries.
    pub(crate) fn occupied_in(&self, range: PositionRange) -> Occupied<'_> {
        let (first, last) = range.slots();
        self.index.occupancy.between(first, last)
    }

    pub(crate) fn index_memory(&self) -> IndexMemory<'_> {
        IndexMemory { index: &self.index, epochs: &self.log.epochs, segments: &self.log.segments }
    }

    /// The hash of the key that an entry is for.
    #[inline]
    pub(crate) fn hash_of<'p>(&'p self, word: Word<'p>, pin: Pinned<'p>) -> u64 {
        KeyHash::of_key(self.log.record(word.address(), pin).key()).0
    }

    /// What a key has.
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

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("memory", &self.memory()).finish_non_exhaustive()
    }
}

/// A pin on the store by one thread; what is found through it stays readable while it lives.
pub struct Guard<'s> {
    pub(crate) store: &'s Store,
    participant: &'s Participant,
    _not_send: std::marker::PhantomData<*const ()>,
}

impl Guard<'_> {
    #[inline]
    pub(crate) fn pinned(&self) -> Pinned<'_> {
        Pinned::by(self)
    }

    /// What a key has. Takes no lock; waits for who changes several keys of the slot in one step. Asked by
    /// the thread that does so it waits for ever.
    #[inline]
    pub fn get(&self, key: HashedKey<'_>) -> Entry<'_> {
        self.store.index.slot(key.slot()).lock.await_turn();
        self.store.look_up(key, self.pinned())
    }

    /// Starts loading the key's bucket; reads its slot.
    #[inline]
    pub fn prefetch_bucket(&self, slot: Slot, hash: KeyHash) {
        self.store.index.slot(slot).prefetch(hash.0);
    }

    /// Starts loading the records that may be the key's; reads its bucket.
    #[inline]
    pub fn prefetch_record(&self, slot: Slot, hash: KeyHash) {
        let prefetch = |address: Address| self.store.log.prefetch(address);
        self.store.index.slot(slot).find(hash.0, self.pinned(), |word| {
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
