//! Records that arrive in pieces: assembled in their final memory, so that a large record takes it once.

use crate::address::Address;
use crate::batch::{BatchError, RecordBatch};
use crate::config::OutOfMemory;
use crate::log::{Log, LogHead};
use crate::record::{CHECKED_FROM, Record};
use crate::replay::{ReplayError, Replayed};
use crate::restamp::restamped;
use crate::store::Store;
use sidle_types::{HashedKey, PositionRange};
use std::sync::Arc;

/// Bytes of a batch, arriving in order. All their memory is taken at the start, and freed if they are dropped
/// before their replay.
pub struct Assembly {
    log: Arc<Log>,
    /// Exclusive until a record in it is published (L5).
    run: u64,
    total: usize,
    arrived: usize,
    /// CRC32C of the bytes from [`CHECKED_FROM`] to `summed`, of a single record. Taken as they arrive: all
    /// of a large record at once takes long.
    crc: u32,
    summed: usize,
    is_kept: bool,
}

impl Assembly {
    /// Takes memory for so many bytes.
    pub fn begin(store: &Store, total: usize) -> Result<Assembly, OutOfMemory> {
        let log = Arc::clone(&store.data.log);
        let run = log.begin_run(total)?;
        Ok(Assembly { log, run, total, arrived: 0, crc: 0, summed: CHECKED_FROM, is_kept: false })
    }

    /// Appends the next bytes.
    ///
    /// # Panics
    /// On more bytes than announced.
    pub fn append(&mut self, piece: &[u8]) {
        assert!(piece.len() <= self.total - self.arrived, "more bytes than were announced");
        self.log.append_to_run(self.run, self.arrived, piece);
        self.arrived += piece.len();
        let bytes = self.log.written(self.run, self.arrived);
        let only = Record::shape_of_beginning(bytes, self.total);
        let end = only.map_or(0, |shape| shape.content_bytes().min(self.arrived));
        if self.summed < end {
            self.crc = crc32c::crc32c_append(self.crc, &bytes[self.summed..end]);
            self.summed = end;
        }
    }

    /// How many bytes have arrived.
    pub fn arrived(&self) -> usize {
        self.arrived
    }

    /// Whether all bytes have arrived.
    pub fn is_whole(&self) -> bool {
        self.arrived == self.total
    }

    /// The bytes that have arrived.
    pub fn bytes(&self) -> &[u8] {
        self.log.written(self.run, self.arrived)
    }

    /// The key, once it has arrived, if these are the bytes of one record. Nothing is checked yet.
    pub fn key(&self) -> Option<HashedKey<'_>> {
        Record::key_of_beginning(self.bytes(), self.total).map(HashedKey::new)
    }

    /// As [`Store::replay`], with all bytes that have arrived. A single record stays where it was assembled.
    pub fn replay(
        mut self,
        store: &Store,
        head: &mut LogHead,
        within: PositionRange,
    ) -> Result<Replayed, ReplayError> {
        assert!(Arc::ptr_eq(&self.log, &store.data.log), "it was assembled for another store");
        if Record::shape_of_beginning(self.bytes(), self.total).is_none() {
            return store.replay(head, &RecordBatch::parse(self.bytes())?, within);
        }
        let checked = Record::check_summed(self.bytes(), self.crc);
        let record = checked.map_err(|error| BatchError::Record { at: 0, error })?;
        if record.is_tombstone() {
            return Err(BatchError::Tombstone { at: 0 }.into());
        }
        let key = record.hashed_key();
        if !within.contains(key.position()) {
            return Err(ReplayError::OutsideRange(key.position()));
        }
        let (slot, hash) = (key.slot(), key.hash());
        let guard = store.lock_slot(slot);
        if guard.find(key).is_some() {
            return Ok(Replayed { inserted: 0, present: 1 });
        }
        guard.admit(|| false)?;
        #[cfg(feature = "testing")]
        self.log.end_run(self.run);
        let version = guard.version_of_arrival(record.version());
        if version != record.version() {
            self.log.write_parts(self.run, &[&restamped(record, version)]);
        }
        let arrived = Record::trusted(self.bytes());
        head.note(|log| arrived.pack(log));
        head.log_change(std::iter::once(slot));
        guard.enter(hash, arrived, Address::from_offset(self.run));
        self.is_kept = true;
        Ok(Replayed { inserted: 1, present: 0 })
    }
}

impl Drop for Assembly {
    fn drop(&mut self) {
        if !self.is_kept {
            #[cfg(feature = "testing")]
            self.log.end_run(self.run);
            self.log.forget_outside(self.run);
        }
    }
}

impl std::fmt::Debug for Assembly {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut f = f.debug_struct("Assembly");
        f.field("total", &self.total).field("arrived", &self.arrived).finish_non_exhaustive()
    }
}
