//! Recovery: a store's content from the records of its durable log.
//!
//! The records may come in any sequence, and again: the highest order of a key, and of a chunk, counts. It is
//! the version that a recovered value has. Newest first is best, since then no memory is written twice.
//! Removals are tombstones of the index until the end. Chunks are in no outline before the end: they look
//! doomed to the cleaner, and it frees no segment (C6).
//!
//! A record past its deadline is a value like any other: it hides older ones, and is removed later.

use crate::address::Address;
use crate::config::OutOfMemory;
use crate::discard::What;
use crate::large::chunk::{ChunkName, record_bytes};
use crate::large::registry::Published;
use crate::log::LogHead;
use crate::logged::{LoggedError, LoggedRecord, Meaning, logged_records};
use crate::record::{Draft, Record, Shape};
use crate::segment::Purpose;
use crate::store::Store;
use sidle_outline::{Chunk, CollectionId, Order, Outline, Place};
use sidle_types::{PositionRange, ValueKind, Version, fault};
use std::collections::{BTreeMap, BTreeSet};

/// How many values are visited at a time.
const VISITED_TOGETHER: usize = 1024;

/// Why a store cannot be recovered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecoveryError {
    /// Bytes are no records.
    #[error(transparent)]
    Damaged(#[from] LoggedError),
    /// The data does not fit.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
    /// A collection lacks chunks, or they are of no such collection.
    #[error("large collection {0:?} is damaged: its chunks are not those of its key")]
    Collection(CollectionId),
}

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

/// The latest of a chunk: its version, and, if it is there, where its record is, and its elements' bytes.
type Latest = (Version, Option<(Address, u32)>);

/// A recovery under way. The store is new, and nobody else's until it is finished.
pub struct Recovery<'s> {
    store: &'s Store,
    head: LogHead,
    cleared: Vec<(PositionRange, Version)>,
    /// By collection: the chunks, by sequence and label.
    chunks: BTreeMap<u64, BTreeMap<(u8, u64), Latest>>,
    /// By cell: how often it was used before, at most.
    uses: BTreeMap<u32, u32>,
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
        Recovery {
            store,
            head: store.data.cleaners_head(),
            cleared: Vec::new(),
            chunks: BTreeMap::new(),
            uses: BTreeMap::new(),
            recovered: Recovered::default(),
        }
    }

    /// Takes some records of the log.
    pub fn replay(&mut self, records: &[u8]) -> Result<(), RecoveryError> {
        logged_records(records).try_for_each(|record| self.take(&record?))
    }

    fn take(&mut self, logged: &LoggedRecord<'_>) -> Result<(), RecoveryError> {
        self.recovered.records += 1;
        match logged.meaning() {
            Meaning::Value(record) => {
                record.collection().into_iter().for_each(|id| self.note_use(id));
                self.take_entry(record, logged)?;
            }
            Meaning::Removed(record) => self.take_entry(record, logged)?,
            Meaning::Chunk(name, record) => self.take_chunk(name, record)?,
            Meaning::NoChunk(name, version) => {
                self.note_use(name.id);
                if self.is_latest(name, version, true) {
                    self.replace_chunk(name, (version, None));
                }
            }
            Meaning::Cleared(range, version) => self.cleared.push((range, version)),
        }
        Ok(())
    }

    /// Takes a value, a head or a tombstone.
    fn take_entry(&mut self, record: Record<'_>, logged: &LoggedRecord<'_>) -> Result<(), OutOfMemory> {
        let key = record.hashed_key();
        let guard = self.store.lock_slot(key.slot());
        let is_tombstone = record.is_tombstone();
        // What is here already has its order as its version.
        let is_outdated = |version| match is_tombstone {
            _ if fault!(FirstRecordReadCounts) => true,
            true => logged.order() < version,
            false => logged.order() <= version,
        };
        if guard.find(key).is_some_and(|(_, word)| is_outdated(guard.record(word).version())) {
            return Ok(());
        }
        let draft = Draft {
            key: record.key(),
            value: &[record.value()],
            version: logged.order(),
            expires_at: record.expires_at(),
            kind: logged.kind(),
        };
        guard.write(&mut self.head, key, &draft)
    }

    fn note_use(&mut self, id: CollectionId) {
        let uses = self.uses.entry(id.0 as u32).or_default();
        *uses = (*uses).max((id.0 >> 32) as u32);
    }

    fn is_latest(&self, name: ChunkName, version: Version, is_gone: bool) -> bool {
        let known = self.chunks.get(&name.id.0).and_then(|chunks| chunks.get(&place_of(name)));
        known.is_none_or(|(known, _)| if is_gone { version >= *known } else { version > *known })
    }

    fn take_chunk(&mut self, name: ChunkName, record: Record<'_>) -> Result<(), OutOfMemory> {
        self.note_use(name.id);
        if self.is_latest(name, record.version(), false) {
            let address = self.head.append_copy(record.in_log(), Purpose::Value)?;
            self.replace_chunk(name, (record.version(), Some((address, record.value().len() as u32))));
        }
        Ok(())
    }

    fn replace_chunk(&mut self, name: ChunkName, latest: Latest) {
        let chunks = self.chunks.entry(name.id.0).or_default();
        if let Some((_, Some((address, bytes)))) = chunks.insert(place_of(name), latest) {
            bury(self.store, address, bytes);
        }
    }

    /// Everything has been taken: the store is as its log says.
    pub fn finish(mut self, count: CountElements<'_>) -> Result<Recovered, RecoveryError> {
        for (range, version) in std::mem::take(&mut self.cleared) {
            self.store.take_out(What::UpTo(version), range.first(), range.last(), usize::MAX);
            self.raise(range, version);
        }
        self.store.take_out(
            What::Tombstones,
            PositionRange::ALL.first(),
            PositionRange::ALL.last(),
            usize::MAX,
        );
        self.enter_collections(count)?;
        // What is left belongs to collections that lost their keys.
        for (address, bytes) in self.chunks.values().flatten().filter_map(|(_, (_, place))| *place) {
            bury(self.store, address, bytes);
        }
        self.store.data.collections.doomed.withdraw();
        self.recovered.values = self.store.len();
        Ok(self.recovered)
    }

    fn raise(&self, range: PositionRange, version: Version) {
        self.store.raise_version_floor(range, version);
    }

    /// Gives each head its outline.
    fn enter_collections(&mut self, count: CountElements<'_>) -> Result<(), RecoveryError> {
        let data = &self.store.data;
        let mut heads = Vec::new();
        let mut from = Some(PositionRange::ALL.first());
        while let Some(at) = from {
            from = self.store.visit(at, PositionRange::ALL.last(), VISITED_TOGETHER, &mut |record| {
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
        let newest = |id: &CollectionId| self.uses.get(&(id.0 as u32)) == Some(&((id.0 >> 32) as u32));
        let wrong = heads.iter().map(|(id, ..)| id).find(|id| !newest(id));
        if let Some(id) = wrong
            && taken.len() == heads.len()
        {
            return Err(RecoveryError::Collection(*id));
        }
        if !data.collections.restore(&self.uses, &taken, &data.log.segments) || taken.len() != heads.len() {
            return Err(RecoveryError::Collection(heads[0].0));
        }
        self.recovered.collections = heads.len() as u64;
        for (id, slot, head) in heads {
            let chunks = self.chunks.remove(&id.0).unwrap_or_default();
            let guard = self.store.lock_slot(slot);
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

/// The place of a chunk among its collection's.
fn place_of(name: ChunkName) -> (u8, u64) {
    (name.order as u8, name.label)
}

fn bury(store: &Store, address: Address, bytes: u32) {
    let _pinned = store.pin();
    store.data.log.bury_chunk(address, Shape::chunk(bytes as usize).total_bytes());
}

impl std::fmt::Debug for Recovery<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recovery").field("recovered", &self.recovered).finish_non_exhaustive()
    }
}
