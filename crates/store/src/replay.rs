//! Replay: the records of a migration batch enter the target's log and index.
//!
//! M5: replay inserts only where the target has no entry: no value, expired value or tombstone. The target's
//! writes win, whatever the versions.

use crate::address::Address;
use crate::batch::{BatchError, RecordBatch};
use crate::config::OutOfMemory;
use crate::log::{Incoming, LogHead};
use crate::record::{Draft, Record};
use crate::segment::Purpose;
use crate::store::Store;
use crate::writer::SlotGuard;
use sidle_types::{Position, PositionRange};

/// Records under one hold of a slot's lock.
const RECORDS_PER_LOCK: usize = 32;
/// How many records ahead buckets are prefetched.
const PREFETCH_AHEAD: usize = 16;

/// The result of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Records that are new.
    pub inserted: u32,
    /// Records whose key had an entry already.
    pub present: u32,
}

/// Why a batch was not replayed, or only in part. Replaying it again is safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// There is no memory; some records may have been inserted.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
    /// A record is outside the range; none was inserted.
    #[error("the batch holds a record at position {0}, outside the range being moved")]
    OutsideRange(Position),
    /// The assembled bytes are not a batch; none was inserted.
    #[error(transparent)]
    Corrupt(#[from] BatchError),
    /// The patch of a collection does not fit to what it is for.
    #[error("a patch of a collection: {0}")]
    Patch(&'static str),
    /// What is to be patched is not here any more; nothing was changed.
    #[error("the collection that is to be patched is gone")]
    Gone,
}

impl Store {
    /// Inserts the records whose keys have no entry, live or tombstone, here (M5). Idempotent. Refuses a
    /// batch with a record outside `within` as a whole.
    pub fn replay(
        &self,
        head: &mut LogHead,
        batch: &RecordBatch<'_>,
        within: PositionRange,
    ) -> Result<Replayed, ReplayError> {
        self.replay_where(head, batch, within, |_| true)
    }

    /// As [`replay`](Self::replay), with the records at these positions only. The others are not counted.
    pub fn replay_where(
        &self,
        head: &mut LogHead,
        batch: &RecordBatch<'_>,
        within: PositionRange,
        enters: impl Fn(Position) -> bool,
    ) -> Result<Replayed, ReplayError> {
        assert!(head.belongs_to(&self.data.log), "the head belongs to another store");
        let mut incoming = std::mem::take(&mut head.replay);
        incoming.clear();
        let mut outside = None;
        for record in batch.iter() {
            let key = record.hashed_key();
            if !within.contains(key.position()) {
                outside = Some(key.position());
                break;
            }
            incoming.push(Incoming { slot: key.slot(), hash: key.hash() });
        }
        let result = match outside {
            Some(position) => Err(ReplayError::OutsideRange(position)),
            None => self.replay_hashed(head, batch, &incoming, enters),
        };
        head.replay = incoming;
        result
    }

    fn replay_hashed(
        &self,
        head: &mut LogHead,
        batch: &RecordBatch<'_>,
        incoming: &[Incoming],
        enters: impl Fn(Position) -> bool,
    ) -> Result<Replayed, ReplayError> {
        let mut replayed = Replayed::default();
        let mut locked: Option<(SlotGuard<'_>, usize)> = None;
        let prefetch = |at: usize| {
            if let Some(incoming) = incoming.get(at) {
                let _pinned = self.pin();
                self.data.index.slot(incoming.slot).prefetch(incoming.hash.0);
            }
        };
        (0..PREFETCH_AHEAD).for_each(prefetch);
        for (at, (record, &Incoming { slot, hash })) in batch.iter().zip(incoming).enumerate() {
            prefetch(at + PREFETCH_AHEAD);
            if !matches!(&locked, Some((guard, held)) if guard.slot() == slot && *held < RECORDS_PER_LOCK) {
                drop(locked.take());
                let guard = self.lock_slot(slot);
                if guard.table().entries() == 0 {
                    // A batch is in the order of positions: a slot's records are adjacent.
                    guard.reserve(incoming[at..].iter().take_while(|next| next.slot == slot).count());
                }
                locked = Some((guard, 0));
            }
            let (guard, held) = locked.as_mut().expect("just locked");
            *held += 1;
            if !enters(Position::new(slot, hash)) {
                continue;
            }
            if guard.find_hashed(hash, record.key()).is_some() {
                replayed.present += 1;
                continue;
            }
            guard.admit(|| false)?;
            let address = append_arrival(guard, head, record)?;
            head.log_change(std::iter::once(slot));
            guard.enter(hash, record, address);
            replayed.inserted += 1;
        }
        Ok(replayed)
    }
}

/// Appends a record that another node wrote, with the version that it gets here.
fn append_arrival(
    guard: &SlotGuard<'_>,
    head: &mut LogHead,
    record: Record<'_>,
) -> Result<Address, OutOfMemory> {
    let version = guard.version_of_arrival(record.version());
    if version == record.version() {
        return head.append_copy(record.in_log(), Purpose::Value);
    }
    let value: &[&[u8]] = &[record.value()];
    head.append(
        &Draft::value(record.key(), record.kind(), value, version, record.expires_at()),
        Purpose::Value,
    )
}
