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
use sidle_commands::{Change, Content, Keyspace, OutOfMemory, Overlay, Underlay, Value, Values};
use sidle_outline::{Chunks, Large, Outline};
use sidle_store::{Aside, Entry, Guard, LogHead, Record, SlotGuard, SlotGuards};
use sidle_types::{HashedKey, ValueKind, WallMs, fault};
use typed_arena::Arena;

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
    /// Holds the outlines of large collections that the command reads or makes.
    pub(crate) outlines: &'g Arena<Outline>,
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
    /// What a command that goes on has built aside.
    pub(crate) aside: &'g mut Option<Aside>,
    pub(crate) scene: Scene<'g>,
}

/// Keys whose slots are all locked.
pub struct Together<'g> {
    pub(crate) slots: SlotGuards<'g>,
    /// Whether these are all slots, and all of them are this node's.
    pub(crate) has_all: bool,
    pub(crate) scene: Scene<'g>,
}

/// The entry's record, if it is a value that has not expired.
#[inline]
fn live(entry: Entry<'_>, now: WallMs) -> Option<Record<'_>> {
    entry.value().filter(|record| !record.is_expired(now))
}

/// A record's value; of a large collection, not what it consists of.
#[inline]
fn whole(record: Record<'_>) -> Value<'_> {
    let content = Content::Whole(record.value());
    Value { kind: record.kind(), content, expires_at: record.expires_at() }
}

impl<'g> Scene<'g> {
    /// A record's value; of a large collection with this outline, whose chunks these lend.
    fn value(&self, record: Record<'g>, outline: Option<Outline>, chunks: &'g dyn Chunks) -> Value<'g> {
        let value = whole(record);
        match outline {
            None => value,
            Some(outline) => {
                let content = Content::Large(Large::new(self.outlines.alloc(outline), chunks));
                Value { content, ..value }
            }
        }
    }

    /// The value of a key whose slot is locked.
    #[inline]
    fn locked_value(&self, slot: &'g SlotGuard<'_>, entry: Entry<'g>) -> Option<Value<'g>> {
        let record = live(entry, self.now)?;
        let outline = record.is_large().then(|| slot.outline(record));
        Some(self.value(record, outline, slot))
    }

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
        let record = live(self.guard.get(self.keys[key]), self.scene.now)?;
        if record.is_large() { self.get_large(key) } else { Some(whole(record)) }
    }

    #[cold]
    fn get_large(&self, key: usize) -> Option<Value<'g>> {
        let (entry, outline) = self.guard.get_whole(self.keys[key]);
        live(entry, self.scene.now).map(|record| self.scene.value(record, outline, self.guard))
    }

    fn get_all(&self) -> Values<'g> {
        let (guard, now) = (self.guard, self.scene.now);
        match self.keys {
            [_] => std::iter::once(self.get(0)).collect(),
            keys => {
                // All cache misses of the request are in flight before the first is waited for.
                keys.iter().for_each(|key| guard.prefetch_bucket(key.slot(), key.hash()));
                keys.iter().for_each(|key| guard.prefetch_record(key.slot(), key.hash()));
                let whole = guard.get_whole_together(keys).into_iter();
                whole
                    .map(|(entry, outline)| {
                        live(entry, now).map(|record| self.scene.value(record, outline, guard))
                    })
                    .collect()
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
        let value = self.scene.locked_value(slot, entry);
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
        self.count_replaced();
        Ok(())
    }

    fn put_large(
        &mut self,
        kind: ValueKind,
        outline: Outline,
        expires_at: Option<WallMs>,
    ) -> Result<(), OutOfMemory> {
        done(self.slot.put_large(self.head, self.key, kind, outline, expires_at))?;
        self.count_replaced();
        Ok(())
    }

    #[cold]
    fn aside(&self) -> Option<Large<'g>> {
        let outline = self.aside.as_ref()?.outline()?;
        Some(Large::new(self.scene.outlines.alloc(outline), self.slot))
    }

    #[cold]
    fn put_aside(&mut self, kind: ValueKind, outline: Outline) -> Result<(), OutOfMemory> {
        let of = (self.key, kind);
        match self.aside {
            Some(aside) => done(aside.go_on(self.slot, self.head, of, outline))?,
            None => {
                let begun = Aside::begin(self.slot, self.head, of, outline);
                *self.aside = Some(begun.map_err(|_| OutOfMemory)?);
            }
        }
        if fault!(HalfRestoreVisible)
            && let Some(half) = self.aside.as_ref().and_then(Aside::outline)
        {
            return self.put_large(kind, half, None);
        }
        Ok(())
    }

    #[inline]
    fn count_replaced(&self) {
        if self.slot.take_replaced_deadline().is_some_and(|deadline| deadline < self.scene.now) {
            self.scene.stats.expired.add(1);
        }
    }

    fn remove(&mut self) -> Result<(), OutOfMemory> {
        done(self.slot.remove(self.head, self.key, self.scene.ranges.left_by_removal(self.key.position())))
    }
}

impl Chunks for Together<'_> {
    fn bytes_at(&self, address: u64) -> &[u8] {
        self.slots.bytes_at(address)
    }
}

impl Underlay for Together<'_> {
    fn get<'g>(&'g self, key: HashedKey<'_>) -> Option<Value<'g>> {
        let slot = self.slots.slot(key.slot());
        self.scene.locked_value(slot, slot.get(key))
    }

    fn large<'g>(&'g self, outline: &'g Outline) -> Large<'g> {
        Large::new(outline, self)
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

/// A change as the store takes it.
pub(crate) fn stored<'g>(
    ranges: &RangeTable,
    (key, change): (HashedKey<'g>, Change<'g>),
) -> (HashedKey<'g>, sidle_store::Change<'g>) {
    let change = match change {
        Change::Put(value) => match value.content {
            Content::Whole(bytes) => sidle_store::Change::Put(value.kind, bytes, value.expires_at),
            Content::Large(large) => {
                sidle_store::Change::PutLarge(value.kind, large.outline(), value.expires_at)
            }
        },
        Change::Remove => sidle_store::Change::Remove(ranges.left_by_removal(key.position())),
    };
    (key, change)
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
            NodeKeyspace::Writes(writes) => match value.content {
                Content::Whole(bytes) => writes.put(value.kind, &[bytes], value.expires_at),
                Content::Large(large) => {
                    writes.put_large(value.kind, large.outline().clone(), value.expires_at)
                }
            },
            NodeKeyspace::Together(overlay) => overlay.put_lasting(key, value),
        }
    }

    fn put_large(
        &mut self,
        key: usize,
        kind: ValueKind,
        outline: Outline,
        expires_at: Option<WallMs>,
    ) -> Result<(), OutOfMemory> {
        match self {
            NodeKeyspace::Reads(_) => only_reads(),
            NodeKeyspace::Writes(writes) => writes.put_large(kind, outline, expires_at),
            NodeKeyspace::Together(overlay) => overlay.put_large(key, kind, outline, expires_at),
        }
    }

    fn aside(&mut self) -> Option<Large<'g>> {
        match self {
            NodeKeyspace::Writes(writes) => writes.aside(),
            NodeKeyspace::Reads(_) | NodeKeyspace::Together(_) => None,
        }
    }

    fn put_aside(&mut self, kind: ValueKind, outline: Outline) -> Result<(), OutOfMemory> {
        match self {
            NodeKeyspace::Writes(writes) => writes.put_aside(kind, outline),
            NodeKeyspace::Reads(_) | NodeKeyspace::Together(_) => {
                unreachable!("its commands run in one go")
            }
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
