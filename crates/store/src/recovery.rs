//! Recovery: a store's content from the records of its durable log.
//!
//! The records may come in any sequence, and again: the highest order of a key, and of a chunk, counts. It is
//! the version that a recovered value has. Newest first is best, since then no memory is written twice.
//!
//! **One reading** of the log takes everything. It may need more memory than the data: removals are
//! tombstones of the index until the end, and chunks of collections that lost their key are known only then.
//! Chunks are in no outline before the end: they look doomed to the cleaner, and it frees no segment (C6).
//!
//! **In stretches** the log is read several times. Each reading takes the entries of a stretch of positions,
//! and then sweeps what is removed there. The last one takes the chunks of the collections that have a key.
//! So there is at no time more than the data, and what one stretch has of tombstones and of values that a
//! flush covers. Overwritten values are left to the cleaner, which frees segments until there are chunks.
//!
//! **At some positions** only the entries there are taken, and then, in a second reading, the chunks of their
//! collections. What else the log has takes no memory.
//!
//! Threads take parts of it at the same time, each of other files.
//!
//! A record past its deadline is a value like any other: it hides older ones, and is removed later.

use crate::address::Address;
use crate::large::chunk::record_bytes;
use crate::large::registry::Published;
use crate::log::LogHead;
use crate::recovered_positions::RecoveredPositions;
use crate::recovery_chunks::FoundChunks;
use crate::recovery_part::{Reading, RecoveryError, RecoveryPart};
use crate::repeated::Repeated;
use crate::store::Store;
use crate::writer::SlotGuard;
use sidle_outline::{Chunk, CollectionId, Order, Outline, Place};
use sidle_types::{Position, PositionRange, SLOT_COUNT, Slot, ValueKind, fault};
use std::collections::BTreeSet;
use std::sync::Arc;

/// How many values are visited at a time.
const VISITED_TOGETHER: usize = 1024;

/// What was recovered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Records read.
    pub records: u64,
    /// Values, expired ones included.
    pub values: u64,
    /// Of those, large collections.
    pub collections: u64,
}

/// A recovery under way. The store is new, and nobody else's until it is finished.
pub struct Recovery<'s> {
    all: RecoveryPart<'s>,
    /// The readings to come; the last is next.
    left: Vec<Reading>,
    /// Half filled, for the parts of the next reading.
    heads: Vec<LogHead>,
    recovered: Recovered,
}

/// How many elements the chunk with this label has; none if these bytes are no chunk's.
pub type CountElements<'f> = &'f dyn Fn(ValueKind, Order, u64, &[u8]) -> Option<u32>;

impl<'s> Recovery<'s> {
    /// Begins with an empty store: in one reading.
    ///
    /// # Panics
    /// When it has a value.
    pub fn begin(store: &'s Store) -> Recovery<'s> {
        assert!(store.is_empty(), "a store is recovered before it is used");
        let all = RecoveryPart::new(store, Reading::Everything, &Arc::new(FoundChunks::new()), None);
        let (left, heads, recovered) = (Vec::new(), Vec::new(), Recovered::default());
        let recovery = Recovery { all, left, heads, recovered };
        recovery.begin_reading();
        recovery
    }

    /// The same, with what the log has at these positions only. Where it has large collections, it is read
    /// twice.
    ///
    /// # Panics
    /// When the store has a value.
    pub fn begin_at(store: &'s Store, positions: &[PositionRange]) -> Recovery<'s> {
        let mut recovery = Recovery::begin(store);
        recovery.end_chunks();
        recovery.all.positions = RecoveredPositions::only(positions);
        recovery.all.reading = Reading::Entries(PositionRange::ALL);
        recovery.left = vec![Reading::Chunks];
        recovery
    }

    /// Forgets what was taken, and begins anew: the entries in so many stretches, one after the other, and
    /// then the chunks. All parts were added or dropped. Returns how many readings there are, at most.
    ///
    /// # Panics
    /// When there are no stretches, or more than slots.
    pub fn begin_again(&mut self, stretches: u16) -> usize {
        let store = self.all.store;
        self.heads.clear();
        self.end_chunks();
        let all = RecoveryPart::new(store, Reading::Chunks, &Arc::new(FoundChunks::new()), None)
            .at(&self.all.positions);
        let old = std::mem::replace(&mut self.all, all);
        old.chunks.bury(store);
        drop(old);
        store.forget_everything();
        self.left = std::iter::once(Reading::Chunks)
            .chain(stretches_of(stretches).into_iter().rev().map(Reading::Entries))
            .collect();
        self.all.reading = self.left.pop().expect("there are stretches");
        self.left.len() + 1
    }

    /// Takes some records of the log.
    pub fn replay(&mut self, records: &[u8]) -> Result<(), RecoveryError> {
        self.all.replay(records)
    }

    /// The same of records at this place of this file.
    pub fn replay_of(&mut self, file: u64, at: usize, records: &[u8]) -> Result<(), RecoveryError> {
        self.all.replay_of(file, at, records)
    }

    /// Where the log has what it has elsewhere as well: of several all but one, by what was taken so far.
    pub fn take_repeated(&mut self) -> Repeated {
        std::mem::take(&mut self.all.repeated)
    }

    /// Another part of this reading, for another thread.
    pub fn part(&mut self) -> RecoveryPart<'s> {
        let part = RecoveryPart::new(self.all.store, self.all.reading, &self.all.chunks, self.heads.pop());
        part.at(&self.all.positions)
    }

    /// What a part has taken counts.
    pub fn add(&mut self, part: RecoveryPart<'s>) {
        let head = self.all.add(part);
        self.heads.push(head);
    }

    /// A reading has taken all of the log. Whether it is to be read again, for the rest.
    pub fn reads_on(&mut self) -> bool {
        self.end_reading();
        let Some(next) = self.left.pop() else { return false };
        if next == Reading::Chunks {
            let heads = self.heads_of_collections();
            if heads.is_empty() {
                return false;
            }
            heads.iter().for_each(|(id, ..)| self.all.chunks.expect(*id));
            // From here on nothing is cleaned.
            self.all.store.make_room(self.all.store.memory().limit as usize);
        }
        self.all.reading = next;
        self.begin_reading();
        true
    }

    /// Whether more than one thread may take a part of this reading. Where chunks come in disorder, outdated
    /// ones take memory until the end.
    pub fn is_for_threads(&self) -> bool {
        self.all.reading != Reading::Chunks
    }

    fn begin_reading(&self) {
        if self.takes_chunks() {
            self.all.store.data.collections.doomed.announce();
        }
    }

    fn takes_chunks(&self) -> bool {
        !matches!(self.all.reading, Reading::Entries(_))
    }

    /// Removes what this reading has of removals.
    fn end_reading(&mut self) {
        let Some(read) = self.all.reading.entries() else { return };
        let store = self.all.store;
        for (range, version) in std::mem::take(&mut self.all.cleared) {
            store.discard_up_to(version, range);
            store.raise_version_floor(range, version);
        }
        self.all.close_graves();
        for swept in store.data.imports.outside_serving(read) {
            store.sweep_tombstones(swept.first(), swept.last(), usize::MAX);
        }
        for (served, since) in store.data.imports.serving() {
            if !fault!(OldTombstonesRecovered) {
                store.sweep_tombstones_up_to(since, served);
            }
        }
        if self.all.reading != Reading::Everything {
            // Tables grew for tombstones too.
            let slots = || store.data.index.occupied_in(read);
            slots().for_each(|slot| {
                store.rebuild(slot);
            });
            store.cleaner().collect_arrays();
        }
    }

    /// The cleaner may free segments with chunks again. It forgets which it has walked through: chunks that
    /// were in no outline then may be in one now.
    fn end_chunks(&self) {
        if self.takes_chunks() {
            self.all.store.cleaner().begin_anew();
            self.all.store.data.collections.doomed.withdraw();
        }
    }

    /// Everything has been taken: the store is as its log says.
    ///
    /// # Panics
    /// When the log is to be [read again](Self::reads_on).
    pub fn finish(mut self, count: CountElements<'_>) -> Result<Recovered, RecoveryError> {
        assert!(self.left.is_empty(), "what was read is not all");
        self.end_reading();
        self.enter_collections(count)?;
        // What is left belongs to collections that lost their keys.
        self.all.chunks.bury(self.all.store);
        self.end_chunks();
        self.all.store.data.imports.forget_ended();
        self.recovered.records = self.all.records;
        self.recovered.values = self.all.store.len();
        Ok(self.recovered)
    }

    /// The large collections that have a key: their numbers, their keys' slots, and where their heads are.
    fn heads_of_collections(&self) -> Vec<(CollectionId, Slot, Address)> {
        let (store, log) = (self.all.store, &self.all.store.data.log);
        let mut heads = Vec::new();
        let mut from = Some(PositionRange::ALL.first());
        while let Some(at) = from {
            from = store.visit(at, PositionRange::ALL.last(), VISITED_TOGETHER, &mut |record| {
                if let Some(id) = record.collection() {
                    let address = Address::from_offset(log.offset_of(record));
                    heads.push((id, record.hashed_key().slot(), address));
                }
            });
        }
        heads
    }

    /// Gives each head its outline.
    fn enter_collections(&mut self, count: CountElements<'_>) -> Result<(), RecoveryError> {
        let data = &self.all.store.data;
        let heads = self.heads_of_collections();
        let taken: BTreeSet<u32> = heads.iter().map(|(id, ..)| id.0 as u32).collect();
        let newest = |id: &CollectionId| self.all.uses.get(&(id.0 as u32)) == Some(&((id.0 >> 32) as u32));
        let wrong = heads.iter().map(|(id, ..)| id).find(|id| !newest(id));
        if let Some(id) = wrong
            && taken.len() == heads.len()
        {
            return Err(RecoveryError::Collection(*id));
        }
        if !data.collections.restore(&self.all.uses, &taken, &data.log.segments) || taken.len() != heads.len()
        {
            return Err(RecoveryError::Collection(heads[0].0));
        }
        self.recovered.collections = heads.len() as u64;
        for (id, slot, head) in heads {
            let chunks = self.all.chunks.remove(id);
            // Without help for the cleaner: the head stays where it is.
            let guard = SlotGuard::lock(data, slot);
            let record = data.log.record(head, guard.pinned());
            let mut version = record.version();
            let mut outline = Outline::new(record.head_encoding());
            for ((order, label), (latest, place)) in chunks {
                version = version.max(latest);
                let Some((address, bytes)) = place else { continue };
                let order = Order::ALL[usize::from(order)];
                let elements = data.chunk_at(address.offset(), guard.pinned());
                let elements =
                    count(record.kind(), order, label, elements).ok_or(RecoveryError::Collection(id))?;
                let place = Place::InLog(address.offset());
                outline.put(order, Chunk { label, elements, bytes, place });
            }
            if outline.is_empty() {
                return Err(RecoveryError::Collection(id));
            }
            outline.publish(id, 1, version.0, &[]);
            let chunks = Order::ALL.into_iter().flat_map(|order| outline.sequence(order).iter_from(0));
            let chunk_bytes = chunks.map(|chunk| record_bytes(chunk) as u64).sum();
            guard.table().raise_version(version.0);
            guard.table().count_bytes(chunk_bytes as i64);
            data.log.segments.index_grew(outline.memory_bytes() as i64);
            let head = Some(head);
            let state = Published { outline, slot, head, version, chunk_bytes, packed_crc: None };
            data.collections.enter(id, state);
        }
        Ok(())
    }
}

/// All positions, in so many stretches of whole slots.
fn stretches_of(count: u16) -> Vec<PositionRange> {
    assert!((1..=SLOT_COUNT).contains(&count), "a stretch has a slot, at least");
    let start = |at: u16| u32::from(at) * u32::from(SLOT_COUNT) / u32::from(count);
    let slot = |number: u32| Slot::new(number as u16).expect("below the number of slots");
    let stretch = |at: u16| {
        let (first, last) = (slot(start(at)), slot(start(at + 1) - 1));
        PositionRange::new(Position::first_of(first), Position::last_of(last)).expect("a slot, at least")
    };
    (0..count).map(stretch).collect()
}

impl std::fmt::Debug for Recovery<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recovery").field("recovered", &self.recovered).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::StoreConfig;
    use crate::record::Draft;
    use sidle_types::{HashedKey, ValueKind, Version};

    /// As an earlier build wrote what came from another node.
    #[test]
    fn of_values_behind_their_orders_the_latest_is_needed() {
        let stays = [4, 9, 6].map(|order| {
            let mut bytes = Vec::new();
            Draft::order(Version(order)).append_to(&mut bytes);
            Draft::value(b"key", ValueKind::String, &[b"value"], Version(3), None).append_to(&mut bytes);
            bytes
        });
        let config = StoreConfig { memory_bytes: 1 << 20, segment_bytes: 16 << 10, ..StoreConfig::default() };
        let store = Store::new(config).expect("a valid configuration");
        let mut recovery = Recovery::begin(&store);
        stays.iter().for_each(|stay| recovery.replay(stay).expect("it was written"));
        recovery.finish(&|_, _, _, _| None).expect("it was written");
        let version = store.pin().get(HashedKey::new(b"key")).value().map(|record| record.version());
        assert_eq!(version, Some(Version(9)));
        let mut needed = Vec::new();
        store.survivors_of(&stays.concat(), usize::MAX, &mut needed);
        assert_eq!(needed, stays[1]);
    }
}
