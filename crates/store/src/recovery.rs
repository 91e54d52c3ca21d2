//! Recovery: a store's content from the records of its durable log.
//!
//! The records may come in any sequence, and again: the highest order of a key, and of a chunk, counts. It is
//! the version that a recovered value has. Newest first is best, since then no memory is written twice.
//! Removals are tombstones of the index until the end. Chunks are in no outline before the end: they look
//! doomed to the cleaner, and it frees no segment (C6).
//!
//! Threads take parts of it at the same time, each of other files.
//!
//! A record past its deadline is a value like any other: it hides older ones, and is removed later.

use crate::address::Address;
use crate::large::chunk::record_bytes;
use crate::large::registry::Published;
use crate::recovery_part::{RecoveryError, RecoveryPart, bury};
use crate::store::Store;
use sidle_outline::{Chunk, CollectionId, Order, Outline, Place};
use sidle_types::{PositionRange, ValueKind, Version};
use std::collections::BTreeSet;

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
    recovered: Recovered,
}

/// How many elements the chunk with this label has; none if these bytes are no chunk's.
pub type CountElements<'f> = &'f dyn Fn(ValueKind, Order, u64, &[u8]) -> Option<u32>;

impl<'s> Recovery<'s> {
    /// Begins with an empty store.
    ///
    /// # Panics
    /// When it has a value.
    pub fn begin(store: &'s Store) -> Recovery<'s> {
        assert!(store.is_empty(), "a store is recovered before it is used");
        store.data.collections.doomed.announce();
        Recovery { all: RecoveryPart::new(store), recovered: Recovered::default() }
    }

    /// Takes some records of the log.
    pub fn replay(&mut self, records: &[u8]) -> Result<(), RecoveryError> {
        self.all.replay(records)
    }

    /// Another part of this recovery, for another thread.
    pub fn part(&self) -> RecoveryPart<'s> {
        RecoveryPart::new(self.all.store)
    }

    /// What a part has taken counts.
    pub fn add(&mut self, part: RecoveryPart<'s>) {
        self.all.add(part);
    }

    /// Everything has been taken: the store is as its log says.
    pub fn finish(mut self, count: CountElements<'_>) -> Result<Recovered, RecoveryError> {
        for (range, version) in std::mem::take(&mut self.all.cleared) {
            self.all.store.discard_up_to(version, range);
            self.raise(range, version);
        }
        let all = PositionRange::ALL;
        self.all.store.sweep_tombstones(all.first(), all.last(), usize::MAX);
        self.enter_collections(count)?;
        // What is left belongs to collections that lost their keys.
        for (address, bytes) in self.all.chunks.values().flatten().filter_map(|(_, (_, place))| *place) {
            bury(self.all.store, address, bytes);
        }
        self.all.store.data.collections.doomed.withdraw();
        self.recovered.records = self.all.records;
        self.recovered.values = self.all.store.len();
        Ok(self.recovered)
    }

    fn raise(&self, range: PositionRange, version: Version) {
        self.all.store.raise_version_floor(range, version);
    }

    /// Gives each head its outline.
    fn enter_collections(&mut self, count: CountElements<'_>) -> Result<(), RecoveryError> {
        let data = &self.all.store.data;
        let mut heads = Vec::new();
        let mut from = Some(PositionRange::ALL.first());
        while let Some(at) = from {
            from = self.all.store.visit(at, PositionRange::ALL.last(), VISITED_TOGETHER, &mut |record| {
                if let Some(id) = record.collection() {
                    heads.push((
                        id,
                        record.hashed_key().slot(),
                        Address::from_offset(data.log.offset_of(record)),
                    ));
                }
            });
        }
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
            let chunks = self.all.chunks.remove(&id.0).unwrap_or_default();
            let guard = self.all.store.lock_slot(slot);
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

impl std::fmt::Debug for Recovery<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recovery").field("recovered", &self.recovered).finish_non_exhaustive()
    }
}
