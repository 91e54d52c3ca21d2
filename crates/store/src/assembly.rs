//! Records that arrive in pieces: assembled in their final memory, so that a large record takes it once.

use crate::address::Address;
use crate::batch::RecordBatch;
use crate::config::OutOfMemory;
use crate::log::{Log, LogHead};
use crate::record::Record;
use crate::replay::{ReplayError, Replayed};
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
    is_kept: bool,
}

impl Assembly {
    /// Takes memory for so many bytes.
    pub fn begin(store: &Store, total: usize) -> Result<Assembly, OutOfMemory> {
        let run = store.data.log.begin_run(total)?;
        Ok(Assembly { log: Arc::clone(&store.data.log), run, total, arrived: 0, is_kept: false })
    }

    /// Appends the next bytes.
    ///
    /// # Panics
    /// On more bytes than announced.
    pub fn append(&mut self, piece: &[u8]) {
        assert!(piece.len() <= self.total - self.arrived, "more bytes than were announced");
        self.log.write_parts(self.run + self.arrived as u64, &[piece]);
        self.arrived += piece.len();
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
        let batch = RecordBatch::parse(self.bytes())?;
        let only = batch.iter().next().filter(|_| batch.len() == 1);
        let Some(record) = only else { return store.replay(head, &batch, within) };
        let key = record.hashed_key();
        if !within.contains(key.position()) {
            return Err(ReplayError::OutsideRange(key.position()));
        }
        let guard = store.lock_slot(key.slot());
        if guard.find(key).is_some() {
            return Ok(Replayed { inserted: 0, present: 1 });
        }
        guard.admit(|| false)?;
        #[cfg(feature = "testing")]
        self.log.end_run(self.run);
        guard.enter(key.hash(), record, Address::from_offset(self.run));
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
