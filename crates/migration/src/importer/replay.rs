//! Replay: pulled records enter the store, then progress says so.
//!
//! M5: a record is inserted only where the target has no entry, live, expired or tombstone; the store sees to
//! that under the slot's lock, so a write that races it wins either way. M7: progress moves after the records
//! are in the index, from exactly where it stood, never over a batch that failed. Replaying a batch again
//! changes nothing (M10).
//!
//! Out of memory: the partition rewinds to where the batch began, pulls pause, and are tried again one at a
//! time with a growing wait. The range is served meanwhile, whatever the protocol, and what fits of priority
//! pulls goes on.
//!
//! Realises: Rocksteady 2.3.1.3 (side logs); Fulva IV-B ("completed" only after replay).

use super::Importer;
use crate::tuning::{STALL_US, STALL_US_MAX};
use crate::{Breach, ImportPhase, TargetEvent};
use sidle_store::{Assembly, LogHead, OutOfMemory, RecordBatch, ReplayError, Replayed, Store};
use sidle_types::{MonotonicUs, Position, PositionRange, fault};
use sidle_wire::Lane;

/// Records of one pull, to be given back to [`Importer::replay`] once the machine's output has been taken.
#[derive(Debug)]
#[must_use = "the partition waits until this is replayed"]
pub struct Replay<'b> {
    pub(super) partition: usize,
    /// The positions that the records are all of.
    pub(super) covers: PositionRange,
    pub(super) next: Option<Position>,
    pub(super) records: Records<'b>,
    pub(super) bytes: usize,
}

/// Records that arrived.
#[derive(Debug)]
pub(super) enum Records<'b> {
    /// Whole.
    Batch(RecordBatch<'b>),
    /// In pieces.
    Assembled(Assembly),
    /// One that was not brought in full, since its key has an entry here.
    Superseded,
}

/// The target is out of memory.
#[derive(Debug)]
pub(super) struct Stall {
    /// When to try again; `None` when that has come.
    retry_at: Option<MonotonicUs>,
    wait_us: u64,
}

impl Stall {
    pub(super) fn timeout(&mut self, now: MonotonicUs) {
        self.retry_at = self.retry_at.filter(|&at| at > now);
    }

    pub(super) fn deadline(&self) -> Option<MonotonicUs> {
        self.retry_at
    }
}

impl Importer {
    /// Makes the records of a pull readable here, then moves the progress over them.
    pub fn replay(&mut self, now: MonotonicUs, store: &Store, replay: Replay<'_>) {
        let Replay { partition, covers, next, records, bytes } = replay;
        if !self.writer.view().phase().takes_records() {
            // A flush came between: what has not arrived is absent for good.
            self.pulls.replayed(partition);
            return;
        }
        let early = fault!(ProgressBeforeReplay);
        let stands_at = self.writer.view().progress().nth(partition).flatten();
        assert!(early || stands_at == Some(covers.first()), "M7: a batch replayed out of turn");
        match self.insert(store, records, covers, bytes) {
            Ok(replayed) => {
                self.writer.passed(u64::from(replayed.inserted) + u64::from(replayed.present));
                self.pulls.replayed(partition);
                if !early {
                    self.writer.advance(partition, next);
                }
                if fault!(TombstonesFreedEarly) && next.is_none() {
                    let partition = self.spec.partitions[partition];
                    store.sweep_tombstones(partition.first(), partition.last(), usize::MAX);
                }
                self.wake_covered(covers);
                self.resume();
                self.finish_if_all_here();
            }
            Err(ReplayError::OutOfMemory(_)) => {
                self.pulls.rewind(partition, covers.first());
                self.stall(now, store);
            }
            Err(error @ (ReplayError::OutsideRange(_) | ReplayError::Corrupt(_))) => {
                self.pulls.rewind(partition, covers.first());
                self.breach(Lane::Bulk, Breach::CorruptBatch(error.to_string()));
            }
        }
    }

    /// Inserts records whose keys have no entry (M5).
    pub(super) fn insert(
        &mut self,
        store: &Store,
        records: Records<'_>,
        within: PositionRange,
        bytes: usize,
    ) -> Result<Replayed, ReplayError> {
        let replayed = self.put_in(store, records, within)?;
        self.writer.met(u64::from(replayed.inserted));
        self.counters.records_moved += u64::from(replayed.inserted);
        self.counters.records_present += u64::from(replayed.present);
        self.counters.bytes_moved += bytes as u64;
        Ok(replayed)
    }

    /// As [`insert`](Self::insert), uncounted.
    pub(super) fn put_in(
        &mut self,
        store: &Store,
        records: Records<'_>,
        within: PositionRange,
    ) -> Result<Replayed, ReplayError> {
        assert!(
            self.writer.view().phase().takes_records(),
            "M3, M8: replay only between activation, or ahead of it, and end"
        );
        let (head, overwrites) = (&mut self.head, fault!(ReplayOverwrites));
        match records {
            Records::Batch(batch) if overwrites => Ok(overwrite(store, head, &batch)?),
            Records::Assembled(assembly) if overwrites => {
                Ok(overwrite(store, head, &RecordBatch::parse(assembly.bytes())?)?)
            }
            Records::Batch(batch) => store.replay(head, &batch, within),
            Records::Assembled(assembly) => assembly.replay(store, head, within),
            Records::Superseded => Ok(Replayed { inserted: 0, present: 1 }),
        }
    }

    /// There was memory for what arrived.
    pub(super) fn resume(&mut self) {
        if self.stall.take().is_some() {
            self.events.push_back(TargetEvent::Resumed);
        }
    }

    pub(super) fn stall(&mut self, now: MonotonicUs, store: &Store) {
        let wait_us = match &self.stall {
            Some(stall) => (stall.wait_us * 2).min(STALL_US_MAX),
            None => STALL_US,
        };
        if self.stall.is_none() {
            self.events.push_back(TargetEvent::Stalled);
        }
        if self.writer.view().phase() == ImportPhase::Filling {
            // It may take for ever, and whoever would make room by deleting keys of the range would wait for
            // the room.
            self.throw_copy_away(store);
            self.writer.activate();
            self.events.push_back(TargetEvent::Activated);
        }
        self.stall = Some(Stall { retry_at: Some(now.plus_us(wait_us)), wait_us });
    }
}

/// The named fault `replay_overwrites`: what arrives replaces what is here.
fn overwrite(store: &Store, head: &mut LogHead, batch: &RecordBatch<'_>) -> Result<Replayed, OutOfMemory> {
    for record in batch {
        let key = record.hashed_key();
        store.lock_slot(key.slot()).put(head, key, &[record.value()], record.expires_at())?;
    }
    Ok(Replayed { inserted: batch.len() as u32, present: 0 })
}
