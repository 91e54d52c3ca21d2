//! The store as commands see it, under the executor's locks for them.
//!
//! - One key, only read: no lock ([`Reads`]).
//! - One key that may be written: the lock of its slot ([`Writes`]). Writes are published at once: readers
//!   see a single word.
//! - Several keys that may be written: the locks of all their slots, and an overlay. The executor publishes
//!   its writes in one step ([`Together`]).

use crate::random::Random;
use crate::range_table::RangeTable;
use crate::shared::NodeShared;
use crate::stats::WorkerStats;
use sidle_collections::Limits;
use sidle_commands::{Keyspace, OutOfMemory, Overlay, Underlay, Value, Values};
use sidle_store::{Entry, Guard, LogHead, SlotGuard, SlotGuards};
use sidle_types::{HashedKey, ValueKind, WallMs};

/// The key space of a command over keys.
pub enum NodeKeyspace<'g> {
    /// It only reads.
    Reads(Reads<'g>),
    /// It may write its one key.
    Writes(Writes<'g>),
    /// It may write several keys.
    Together(Overlay<'g, Together<'g>>),
}

/// What all key spaces share.
#[derive(Clone, Copy)]
pub(crate) struct Scene<'g> {
    /// Decides expiry.
    pub(crate) now: WallMs,
    /// Counts look-ups, and removals of expired keys.
    pub(crate) stats: &'g WorkerStats,
    /// Holds the limits of values.
    pub(crate) shared: &'g NodeShared,
    /// Determines what a removal leaves behind, and what all nodes know.
    pub(crate) ranges: &'g RangeTable,
    pub(crate) random: &'g Random,
}

/// Keys that are only read.
pub struct Reads<'g> {
    pub(crate) keys: &'g [HashedKey<'g>],
    pub(crate) guard: &'g Guard<'g>,
    pub(crate) scene: Scene<'g>,
}

/// One key whose slot is locked.
pub struct Writes<'g> {
    pub(crate) key: HashedKey<'g>,
    pub(crate) slot: &'g SlotGuard<'g>,
    pub(crate) head: &'g mut LogHead,
    pub(crate) scene: Scene<'g>,
}

/// Keys whose slots are all locked.
pub struct Together<'g> {
    pub(crate) slots: SlotGuards<'g>,
    /// Whether these are all slots, and all of them are this node's.
    pub(crate) has_all: bool,
    pub(crate) scene: Scene<'g>,
}

/// The entry's value, if present and not expired.
#[inline]
fn live(entry: Entry<'_>, now: WallMs) -> Option<Value<'_>> {
    match entry {
        Entry::Value(record) if !record.is_expired(now) => {
            Some(Value { kind: record.kind(), bytes: record.value(), expires_at: record.expires_at() })
        }
        _ => None,
    }
}

impl Scene<'_> {
    fn takes_collections(&self) -> bool {
        self.ranges.map().version().has_collections()
    }

    #[inline]
    fn count_look_ups(&self, hits: usize, misses: usize) {
        self.stats.hits.add(hits as u64);
        self.stats.misses.add(misses as u64);
    }
}

impl<'g> Reads<'g> {
    #[inline]
    fn get(&self, key: usize) -> Option<Value<'g>> {
        live(self.guard.get(self.keys[key]), self.scene.now)
    }

    fn get_all(&self) -> Values<'g> {
        let (guard, now) = (self.guard, self.scene.now);
        match self.keys {
            [_] => std::iter::once(self.get(0)).collect(),
            keys => {
                // All cache misses of the request are in flight before the first is waited for.
                keys.iter().for_each(|key| guard.prefetch_bucket(key.slot(), key.hash()));
                keys.iter().for_each(|key| guard.prefetch_record(key.slot(), key.hash()));
                guard.get_together(keys).into_iter().map(|entry| live(entry, now)).collect()
            }
        }
    }
}

impl<'g> Writes<'g> {
    /// An expired key is removed on the way.
    #[inline]
    fn get(&mut self) -> Option<Value<'g>> {
        let slot = self.slot;
        let entry = slot.get(self.key);
        let value = live(entry, self.scene.now);
        if value.is_none() && matches!(entry, Entry::Value(_)) {
            self.remove().expect("what has an entry can always be removed");
            self.scene.stats.expired.add(1);
        }
        value
    }

    /// An expired value that is replaced unseen counts as expired, too.
    #[inline]
    fn put(
        &mut self,
        kind: ValueKind,
        value: &[&[u8]],
        expires_at: Option<WallMs>,
    ) -> Result<(), OutOfMemory> {
        done(self.slot.put_typed(self.head, self.key, kind, value, expires_at))?;
        if self.slot.take_replaced_deadline().is_some_and(|deadline| deadline < self.scene.now) {
            self.scene.stats.expired.add(1);
        }
        Ok(())
    }

    fn remove(&mut self) -> Result<(), OutOfMemory> {
        done(self.slot.remove(self.head, self.key, self.scene.ranges.left_by_removal(self.key.position())))
    }
}

impl Underlay for Together<'_> {
    fn get<'g>(&'g self, key: HashedKey<'_>) -> Option<Value<'g>> {
        live(self.slots.get(key), self.scene.now)
    }

    fn lends_all(&self) -> bool {
        self.has_all
    }

    fn count_look_ups(&self, hits: usize, misses: usize) {
        self.scene.count_look_ups(hits, misses);
    }

    fn longest_value_bytes(&self) -> u64 {
        self.scene.shared.config.longest_value_bytes()
    }

    fn collection_limits(&self) -> Limits {
        self.scene.shared.config.collection_limits()
    }

    fn takes_collections(&self) -> bool {
        self.scene.takes_collections()
    }

    fn random(&self) -> u64 {
        self.scene.random.next()
    }
}

#[inline]
fn done<T>(result: Result<T, sidle_store::OutOfMemory>) -> Result<(), OutOfMemory> {
    result.map(drop).map_err(|_| OutOfMemory)
}

impl<'g> Keyspace<'g> for NodeKeyspace<'g> {
    #[inline]
    fn len(&self) -> usize {
        match self {
            NodeKeyspace::Reads(reads) => reads.keys.len(),
            NodeKeyspace::Writes(_) => 1,
            NodeKeyspace::Together(overlay) => overlay.len(),
        }
    }

    #[inline]
    fn get(&mut self, key: usize) -> Option<Value<'g>> {
        match self {
            NodeKeyspace::Reads(reads) => reads.get(key),
            NodeKeyspace::Writes(writes) => writes.get(),
            NodeKeyspace::Together(overlay) => overlay.get(key),
        }
    }

    fn lends_unnamed(&self) -> bool {
        matches!(self, NodeKeyspace::Together(overlay) if overlay.lends_unnamed())
    }

    fn get_unnamed(&mut self, key: &[u8]) -> Option<Value<'g>> {
        match self {
            NodeKeyspace::Together(overlay) => overlay.get_unnamed(key),
            NodeKeyspace::Reads(_) | NodeKeyspace::Writes(_) => unreachable!("it lends no other keys"),
        }
    }

    fn get_all(&mut self) -> Values<'g> {
        match self {
            NodeKeyspace::Reads(reads) => reads.get_all(),
            NodeKeyspace::Writes(writes) => std::iter::once(writes.get()).collect(),
            NodeKeyspace::Together(overlay) => overlay.get_all(),
        }
    }

    #[inline]
    fn put(
        &mut self,
        key: usize,
        kind: ValueKind,
        value: &[&[u8]],
        expires_at: Option<WallMs>,
    ) -> Result<(), OutOfMemory> {
        match self {
            NodeKeyspace::Reads(_) => only_reads(),
            NodeKeyspace::Writes(writes) => writes.put(kind, value, expires_at),
            NodeKeyspace::Together(overlay) => overlay.put(key, kind, value, expires_at),
        }
    }

    #[inline]
    fn put_lasting(&mut self, key: usize, value: Value<'g>) -> Result<(), OutOfMemory> {
        match self {
            NodeKeyspace::Reads(_) => only_reads(),
            NodeKeyspace::Writes(writes) => writes.put(value.kind, &[value.bytes], value.expires_at),
            NodeKeyspace::Together(overlay) => overlay.put_lasting(key, value),
        }
    }

    fn extend(&mut self, key: usize, added: &[&[u8]]) -> Result<(), OutOfMemory> {
        match self {
            NodeKeyspace::Reads(_) => only_reads(),
            NodeKeyspace::Writes(writes) => done(writes.slot.extend(writes.head, writes.key, added)),
            NodeKeyspace::Together(overlay) => overlay.extend(key, added),
        }
    }

    fn set_end(&mut self, key: usize, expires_at: Option<WallMs>) -> Result<(), OutOfMemory> {
        match self {
            NodeKeyspace::Reads(_) => only_reads(),
            NodeKeyspace::Writes(writes) => {
                done(writes.slot.set_deadline(writes.head, writes.key, expires_at))
            }
            NodeKeyspace::Together(overlay) => overlay.set_end(key, expires_at),
        }
    }

    fn remove(&mut self, key: usize) -> Result<(), OutOfMemory> {
        match self {
            NodeKeyspace::Reads(_) => only_reads(),
            NodeKeyspace::Writes(writes) => writes.remove(),
            NodeKeyspace::Together(overlay) => overlay.remove(key),
        }
    }

    #[inline]
    fn count_look_ups(&mut self, hits: usize, misses: usize) {
        match self {
            NodeKeyspace::Reads(Reads { scene, .. }) | NodeKeyspace::Writes(Writes { scene, .. }) => {
                scene.count_look_ups(hits, misses);
            }
            NodeKeyspace::Together(overlay) => overlay.count_look_ups(hits, misses),
        }
    }

    fn longest_value_bytes(&self) -> u64 {
        match self {
            NodeKeyspace::Reads(Reads { scene, .. }) | NodeKeyspace::Writes(Writes { scene, .. }) => {
                scene.shared.config.longest_value_bytes()
            }
            NodeKeyspace::Together(overlay) => overlay.longest_value_bytes(),
        }
    }

    fn collection_limits(&self) -> Limits {
        match self {
            NodeKeyspace::Reads(Reads { scene, .. }) | NodeKeyspace::Writes(Writes { scene, .. }) => {
                scene.shared.config.collection_limits()
            }
            NodeKeyspace::Together(overlay) => overlay.collection_limits(),
        }
    }

    fn takes_collections(&self) -> bool {
        match self {
            NodeKeyspace::Reads(Reads { scene, .. }) | NodeKeyspace::Writes(Writes { scene, .. }) => {
                scene.takes_collections()
            }
            NodeKeyspace::Together(overlay) => overlay.takes_collections(),
        }
    }

    fn random(&mut self) -> u64 {
        match self {
            NodeKeyspace::Reads(Reads { scene, .. }) | NodeKeyspace::Writes(Writes { scene, .. }) => {
                scene.random.next()
            }
            NodeKeyspace::Together(overlay) => overlay.random(),
        }
    }
}

#[cold]
fn only_reads() -> ! {
    unreachable!("this command's access declares it read-only")
}
