//! Arrived records, and how they enter the store.
//!
//! M5: a record is inserted only where the target has no entry, live, expired or tombstone. The store ensures
//! that under the slot's lock, so a racing write wins either way.

use sidle_store::{Assembly, LogHead, OutOfMemory, RecordBatch, ReplayError, Replayed, Store};
use sidle_types::{PositionRange, fault};

/// Arrived records.
#[derive(Debug)]
pub(super) enum Records<'b> {
    /// Whole.
    Batch(RecordBatch<'b>),
    /// In pieces.
    Assembled(Assembly),
    /// One that was not fetched completely, since its key has an entry here.
    Superseded,
}

/// Why arrived records were not taken.
#[derive(Debug)]
pub(super) enum Untaken {
    OutOfMemory,
    /// They are inconsistent, or not what was asked for.
    Corrupt(String),
}

impl From<OutOfMemory> for Untaken {
    fn from(_: OutOfMemory) -> Untaken {
        Untaken::OutOfMemory
    }
}

impl From<ReplayError> for Untaken {
    fn from(error: ReplayError) -> Untaken {
        match error {
            ReplayError::OutOfMemory(_) => Untaken::OutOfMemory,
            ReplayError::OutsideRange(_) | ReplayError::Corrupt(_) => Untaken::Corrupt(error.to_string()),
        }
    }
}

impl<'b> Records<'b> {
    /// A batch that arrived whole.
    pub(super) fn parse(batch: &'b [u8]) -> Result<Records<'b>, Untaken> {
        let batch = RecordBatch::parse(batch).map_err(|error| Untaken::Corrupt(error.to_string()))?;
        Ok(Records::Batch(batch))
    }

    /// Inserts those whose keys have no entry (M5).
    pub(super) fn put_in(
        self,
        store: &Store,
        head: &mut LogHead,
        within: PositionRange,
    ) -> Result<Replayed, ReplayError> {
        let overwrites = fault!(ReplayOverwrites);
        match self {
            Records::Batch(batch) if overwrites => Ok(overwrite(store, head, &batch)?),
            Records::Assembled(assembly) if overwrites => {
                Ok(overwrite(store, head, &RecordBatch::parse(assembly.bytes())?)?)
            }
            Records::Batch(batch) => store.replay(head, &batch, within),
            Records::Assembled(assembly) => assembly.replay(store, head, within),
            Records::Superseded => Ok(Replayed { inserted: 0, present: 1 }),
        }
    }
}

/// The named fault `replay_overwrites`: arriving records replace those here.
fn overwrite(store: &Store, head: &mut LogHead, batch: &RecordBatch<'_>) -> Result<Replayed, OutOfMemory> {
    for record in batch {
        let key = record.hashed_key();
        store.lock_slot(key.slot()).put(head, key, &[record.value()], record.expires_at())?;
    }
    Ok(Replayed { inserted: batch.len() as u32, present: 0 })
}
