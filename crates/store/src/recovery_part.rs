//! What one thread takes of a recovery: records, in any sequence.
//!
//! Values, heads and tombstones enter the index at once, under their slot's lock, whichever thread has them.
//! What can be judged only when all is taken is kept: chunks, and what was cleared.

use crate::address::Address;
use crate::config::OutOfMemory;
use crate::large::chunk::ChunkName;
use crate::log::LogHead;
use crate::logged::{LoggedError, LoggedRecord, Meaning, logged_records};
use crate::record::{Draft, Record, Shape};
use crate::segment::Purpose;
use crate::store::Store;
use sidle_outline::CollectionId;
use sidle_types::{HashedKey, PositionRange, Version, fault};
use std::collections::BTreeMap;

/// So many records are loaded together.
const TOGETHER: usize = 32;

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

/// The latest of a chunk: its version, and, if it is there, where its record is, and its elements' bytes.
type Latest = (Version, Option<(Address, u32)>);

/// What a thread has taken. Its recovery [adds](crate::Recovery::add) it up.
pub struct RecoveryPart<'s> {
    pub(crate) store: &'s Store,
    head: LogHead,
    pub(crate) cleared: Vec<(PositionRange, Version)>,
    /// By collection: the chunks, by sequence and label.
    pub(crate) chunks: BTreeMap<u64, BTreeMap<(u8, u64), Latest>>,
    /// By cell: how often it was used before, at most.
    pub(crate) uses: BTreeMap<u32, u32>,
    pub(crate) records: u64,
}

impl<'s> RecoveryPart<'s> {
    pub(crate) fn new(store: &'s Store) -> RecoveryPart<'s> {
        RecoveryPart {
            store,
            head: store.data.cleaners_head(),
            cleared: Vec::new(),
            chunks: BTreeMap::new(),
            uses: BTreeMap::new(),
            records: 0,
        }
    }

    /// Takes some records of the log.
    pub fn replay(&mut self, records: &[u8]) -> Result<(), RecoveryError> {
        let mut records = logged_records(records);
        let mut together = Vec::with_capacity(TOGETHER);
        loop {
            for record in records.by_ref().take(TOGETHER) {
                let record = record?;
                let key = record.entry_key();
                key.iter().for_each(|key| self.store.prefetch_slot(key.slot()));
                together.push((record, key));
            }
            if together.is_empty() {
                return Ok(());
            }
            self.load_entries(&together);
            self.records += together.len() as u64;
            for (record, key) in together.drain(..) {
                self.take(&record, key)?;
            }
        }
    }

    /// Loads what the index has of these keys, all at the same time.
    fn load_entries(&self, together: &[(LoggedRecord<'_>, Option<HashedKey<'_>>)]) {
        let guard = self.store.pin();
        let keys = || together.iter().filter_map(|(_, key)| *key);
        keys().for_each(|key| guard.prefetch_bucket(key.slot(), key.hash()));
        keys().for_each(|key| guard.prefetch_record(key.slot(), key.hash()));
    }

    fn take(&mut self, logged: &LoggedRecord<'_>, key: Option<HashedKey<'_>>) -> Result<(), RecoveryError> {
        match logged.meaning() {
            Meaning::Value(record) | Meaning::Removed(record) => {
                record.collection().into_iter().for_each(|id| self.note_use(id));
                self.take_entry(record, key.unwrap_or_else(|| record.hashed_key()), logged)?;
            }
            Meaning::Chunk(name, record) => self.take_chunk(name, record)?,
            Meaning::NoChunk(name, version) => {
                self.note_use(name.id);
                self.take_latest(name.id.0, place_of(name), (version, None));
            }
            Meaning::Cleared(range, version) => self.cleared.push((range, version)),
        }
        Ok(())
    }

    /// Takes a value, a head or a tombstone.
    fn take_entry(
        &mut self,
        record: Record<'_>,
        key: HashedKey<'_>,
        logged: &LoggedRecord<'_>,
    ) -> Result<(), OutOfMemory> {
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
        self.note_uses(id.0 as u32, (id.0 >> 32) as u32);
    }

    fn note_uses(&mut self, cell: u32, count: u32) {
        let uses = self.uses.entry(cell).or_default();
        *uses = (*uses).max(count);
    }

    fn take_chunk(&mut self, name: ChunkName, record: Record<'_>) -> Result<(), OutOfMemory> {
        self.note_use(name.id);
        let place = place_of(name);
        if self.is_latest(name.id.0, place, (record.version(), false)) {
            let address = self.head.append_copy(record.in_log(), Purpose::Value)?;
            let latest = (record.version(), Some((address, record.value().len() as u32)));
            self.take_latest(name.id.0, place, latest);
        }
        Ok(())
    }

    fn is_latest(&self, id: u64, place: (u8, u64), (version, is_gone): (Version, bool)) -> bool {
        let known = self.chunks.get(&id).and_then(|chunks| chunks.get(&place));
        known.is_none_or(|(known, _)| if is_gone { version >= *known } else { version > *known })
    }

    /// Takes what is known of a chunk, if it is the latest; the record of what is not is given back.
    fn take_latest(&mut self, id: u64, place: (u8, u64), latest: Latest) {
        let dead = match self.is_latest(id, place, (latest.0, latest.1.is_none())) {
            true => self.chunks.entry(id).or_default().insert(place, latest).and_then(|(_, dead)| dead),
            false => latest.1,
        };
        if let Some((address, bytes)) = dead {
            bury(self.store, address, bytes);
        }
    }

    /// Takes what another part has taken.
    pub(crate) fn add(&mut self, other: RecoveryPart<'s>) {
        self.cleared.extend(other.cleared);
        self.records += other.records;
        for (cell, count) in other.uses {
            self.note_uses(cell, count);
        }
        for (id, chunks) in other.chunks {
            for (place, latest) in chunks {
                self.take_latest(id, place, latest);
            }
        }
    }
}

/// The place of a chunk among its collection's.
fn place_of(name: ChunkName) -> (u8, u64) {
    (name.order as u8, name.label)
}

pub(crate) fn bury(store: &Store, address: Address, bytes: u32) {
    let _pinned = store.pin();
    store.data.log.bury_chunk(address, Shape::chunk(bytes as usize).total_bytes());
}

impl std::fmt::Debug for RecoveryPart<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecoveryPart").field("records", &self.records).finish_non_exhaustive()
    }
}
