//! What one thread takes of a recovery: records, in any sequence.
//!
//! Values, heads and tombstones enter the index at once, under their slot's lock, whichever thread has them.
//! Tombstones have segments of their own, which are free as a whole when the reading is over. What can be
//! judged only then is kept: chunks, and what was cleared.

use crate::config::OutOfMemory;
use crate::log::LogHead;
use crate::logged::{LoggedError, LoggedRecord, Meaning, logged_records};
use crate::record::{Draft, Record};
use crate::recovered_positions::RecoveredPositions;
use crate::recovery_chunks::{FoundChunk, FoundChunks};
use crate::repeated::{self, Repeated};
use crate::segment::Purpose;
use crate::store::Store;
use sidle_outline::CollectionId;
use sidle_types::{HashedKey, PositionRange, Version, fault};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

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

/// What a reading of the log takes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// All of it.
    Everything,
    /// What is about keys at these positions.
    Entries(PositionRange),
    /// The chunks of the collections that have a key.
    Chunks,
}

impl Reading {
    /// The positions whose keys it is about.
    pub(crate) fn entries(self) -> Option<PositionRange> {
        match self {
            Reading::Everything => Some(PositionRange::ALL),
            Reading::Entries(range) => Some(range),
            Reading::Chunks => None,
        }
    }
}

/// What a thread has taken. Its recovery [adds](crate::Recovery::add) it up.
pub struct RecoveryPart<'s> {
    pub(crate) store: &'s Store,
    pub(crate) reading: Reading,
    /// Keys elsewhere are passed over.
    pub(crate) positions: RecoveredPositions,
    pub(crate) head: LogHead,
    /// For tombstones.
    graves: LogHead,
    pub(crate) cleared: Vec<(PositionRange, Version)>,
    pub(crate) chunks: Arc<FoundChunks>,
    /// By cell: how often it was used before, at most.
    pub(crate) uses: BTreeMap<u32, u32>,
    pub(crate) records: u64,
    /// The file whose records are taken, if that is known.
    file: Option<u64>,
    pub(crate) repeated: Repeated,
}

impl<'s> RecoveryPart<'s> {
    pub(crate) fn new(
        store: &'s Store,
        reading: Reading,
        chunks: &Arc<FoundChunks>,
        head: Option<LogHead>,
    ) -> RecoveryPart<'s> {
        RecoveryPart {
            store,
            reading,
            positions: RecoveredPositions::all(),
            head: head.unwrap_or_else(|| store.data.cleaners_head()),
            graves: store.data.cleaners_head(),
            cleared: Vec::new(),
            chunks: Arc::clone(chunks),
            uses: BTreeMap::new(),
            records: 0,
            file: None,
            repeated: Repeated::new(),
        }
    }

    /// The same, for keys at these positions only.
    #[must_use]
    pub(crate) fn at(mut self, positions: &RecoveredPositions) -> RecoveryPart<'s> {
        self.positions = positions.clone();
        self
    }

    /// The segment of the latest tombstones is closed: it is free once they are swept.
    pub(crate) fn close_graves(&mut self) {
        self.graves = self.store.data.cleaners_head();
    }

    /// Takes some records of the log: best a whole commit.
    pub fn replay(&mut self, records: &[u8]) -> Result<(), RecoveryError> {
        self.file = None;
        self.take_records(0, records)
    }

    /// The same of records at this place of this file. It is noted which of them the log has elsewhere.
    pub fn replay_of(&mut self, file: u64, at: usize, records: &[u8]) -> Result<(), RecoveryError> {
        self.file = Some(file);
        self.take_records(at, records)
    }

    fn take_records(&mut self, mut at: usize, records: &[u8]) -> Result<(), RecoveryError> {
        let mut records = logged_records(records);
        let mut together = Vec::with_capacity(TOGETHER);
        let mut chunks = Vec::new();
        loop {
            for record in records.by_ref().take(TOGETHER) {
                let record = record?;
                let key = record.entry_key();
                key.iter().for_each(|key| self.store.prefetch_slot(key.slot()));
                let place = at..at + record.bytes().len();
                at = place.end;
                together.push((record, key, place));
            }
            if together.is_empty() {
                break;
            }
            let entries = self.reading.entries();
            let is_read = |key: &HashedKey<'_>| {
                let position = key.position();
                entries.is_some_and(|range| range.contains(position)) && self.positions.has(position)
            };
            together.retain(|(_, key, _)| key.as_ref().is_none_or(is_read));
            // Chunks are counted when they are taken.
            let takes_chunks = !matches!(self.reading, Reading::Entries(_));
            self.records +=
                together.iter().filter(|(_, key, _)| key.is_some() || takes_chunks).count() as u64;
            self.load_entries(&together);
            for (record, key, place) in together.drain(..) {
                self.take(&record, key, place, &mut chunks)?;
            }
        }
        self.take_chunks(chunks)?;
        Ok(())
    }

    /// Loads what the index has of these keys, all at the same time.
    fn load_entries(&self, together: &[(LoggedRecord<'_>, Option<HashedKey<'_>>, Range<usize>)]) {
        let guard = self.store.pin();
        let keys = || together.iter().filter_map(|(_, key, _)| *key);
        keys().for_each(|key| guard.prefetch_bucket(key.slot(), key.hash()));
        keys().for_each(|key| guard.prefetch_record(key.slot(), key.hash()));
    }

    fn take<'r>(
        &mut self,
        logged: &LoggedRecord<'r>,
        key: Option<HashedKey<'_>>,
        place: Range<usize>,
        chunks: &mut Vec<FoundChunk<'r>>,
    ) -> Result<(), OutOfMemory> {
        match logged.meaning() {
            Meaning::Value(record) | Meaning::Removed(record) => {
                record.collection().into_iter().for_each(|id| self.note_use(id));
                if self.take_entry(record, key.unwrap_or_else(|| record.hashed_key()), logged)? {
                    self.note_repeated(place);
                }
            }
            Meaning::Chunk(name, record) => {
                self.note_use(name.id);
                chunks.push(FoundChunk::new(name, record.version(), Some(record), place));
            }
            Meaning::NoChunk(name, version) => {
                self.note_use(name.id);
                chunks.push(FoundChunk::new(name, version, None, place));
            }
            Meaning::Import(note, since) => {
                self.store.data.imports.take(note, since);
            }
            Meaning::Cleared(range, version) => {
                let read = self.reading.entries().and_then(|read| {
                    PositionRange::new(range.first().max(read.first()), range.last().min(read.last()))
                });
                self.cleared.extend(read.map(|range| (range, version)));
            }
        }
        Ok(())
    }

    fn note_repeated(&mut self, place: Range<usize>) {
        if let Some(file) = self.file {
            repeated::note(&mut self.repeated, file, place);
        }
    }

    /// Takes a value, a head or a tombstone. Makes room for it once, if there is none. Whether it is a value
    /// that is here already.
    fn take_entry(
        &mut self,
        record: Record<'_>,
        key: HashedKey<'_>,
        logged: &LoggedRecord<'_>,
    ) -> Result<bool, OutOfMemory> {
        match self.write_entry(record, key, logged) {
            Err(OutOfMemory) => {
                self.store.make_room(record.in_log().len());
                self.write_entry(record, key, logged)
            }
            done => done,
        }
    }

    fn write_entry(
        &mut self,
        record: Record<'_>,
        key: HashedKey<'_>,
        logged: &LoggedRecord<'_>,
    ) -> Result<bool, OutOfMemory> {
        let guard = self.store.lock_slot(key.slot());
        let is_tombstone = record.is_tombstone();
        // What is here already has its order as its version.
        let is_outdated = |version| match is_tombstone {
            _ if fault!(FirstRecordReadCounts) => true,
            true => logged.order() < version,
            false => logged.order() <= version,
        };
        if let Some((_, word)) = guard.find(key) {
            let version = guard.record(word).version();
            if is_outdated(version) {
                let is_value = !is_tombstone && !word.kind().is_tombstone;
                return Ok(is_value && logged.order() == version);
            }
        }
        let draft = Draft {
            key: record.key(),
            value: &[record.value()],
            version: logged.order(),
            expires_at: record.expires_at(),
            kind: logged.kind(),
        };
        let head = if is_tombstone { &mut self.graves } else { &mut self.head };
        let address = head.append(&draft, Purpose::Recovered)?;
        guard.publish(key, &draft, address);
        Ok(false)
    }

    fn note_use(&mut self, id: CollectionId) {
        self.note_uses(id.0 as u32, (id.0 >> 32) as u32);
    }

    fn note_uses(&mut self, cell: u32, count: u32) {
        let uses = self.uses.entry(cell).or_default();
        *uses = (*uses).max(count);
    }

    /// Takes the chunks of some records.
    fn take_chunks(&mut self, chunks: Vec<FoundChunk<'_>>) -> Result<(), OutOfMemory> {
        let is_any_expected = match self.reading {
            Reading::Entries(_) => return Ok(()),
            Reading::Everything => true,
            Reading::Chunks => false,
        };
        let repeated = self.chunks.take(self.store, &mut self.head, chunks, is_any_expected)?;
        repeated.into_iter().for_each(|place| self.note_repeated(place));
        Ok(())
    }

    /// Takes what another part has taken; returns its head.
    pub(crate) fn add(&mut self, other: RecoveryPart<'s>) -> LogHead {
        self.cleared.extend(other.cleared);
        self.records += other.records;
        repeated::add(&mut self.repeated, other.repeated);
        for (cell, count) in other.uses {
            self.note_uses(cell, count);
        }
        other.head
    }
}

impl std::fmt::Debug for RecoveryPart<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecoveryPart").field("records", &self.records).finish_non_exhaustive()
    }
}
