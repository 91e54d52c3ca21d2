//! Replay: pulled records enter the store, then progress moves over them.
//!
//! M7: progress moves after the records are in the index, from exactly where it stood, never over a batch
//! that failed. Replaying a batch again changes nothing (M5, M10).
//!
//! Out of memory: the partition rewinds to where the batch began. Pulls pause, and are retried one at a time
//! with growing waits. The range is served meanwhile, under any protocol, and priority pulls that fit
//! continue.
//!
//! Realises: Rocksteady 2.3.1.3 (side logs); Fulva IV-B ("completed" only after replay).

use super::Importer;
use super::records::{Records, Untaken};
use crate::tuning::{STALL_US, STALL_US_MAX};
use crate::{Breach, ImportPhase, TargetEvent};
use sidle_store::Store;
use sidle_types::{MonotonicUs, Position, PositionRange, fault};
use sidle_wire::Lane;

/// Records of one pull, to be passed to [`Importer::replay`] after taking the machine's output.
#[derive(Debug)]
#[must_use = "the partition waits until this is replayed"]
pub struct Replay<'b> {
    pub(super) partition: usize,
    /// The positions of which these are all records.
    pub(super) covers: PositionRange,
    pub(super) next: Option<Position>,
    /// Whether it was asked for after the cut that gave all (M30).
    pub(super) is_of_owed: bool,
    pub(super) records: Records<'b>,
    pub(super) bytes: usize,
}

/// The target is out of memory.
#[derive(Debug)]
pub(super) struct Stall {
    /// When to try again; `None` when that instant has passed.
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
        let Replay { partition, covers, next, is_of_owed, records, bytes } = replay;
        if !self.parts.phase().takes_records() || self.is_still() {
            // A flush came in between: what has not arrived is absent for good. Or it stops.
            self.pulls.replayed(partition);
            return;
        }
        let early = fault!(ProgressBeforeReplay) && self.cuts.is_none();
        let stands_at = match &self.cuts {
            Some(cuts) => cuts.copied_before(partition),
            None => self.parts.writer.view().progress().nth(partition).flatten(),
        };
        assert!(early || stands_at == Some(covers.first()), "M7: a batch replayed out of turn");
        let is_late = self.parts.writer.view().gave_all() && !is_of_owed;
        assert!(!is_late || fault!(OldCopyEntersOwed), "M30: packed before the cut that gave all");
        if let Some(cuts) = &mut self.cuts {
            cuts.copies_up_to(partition, covers.last());
        }
        match self.parts.insert(store, records, covers, bytes) {
            Ok(replayed) => {
                self.parts.writer.passed(u64::from(replayed.inserted) + u64::from(replayed.present));
                self.pulls.replayed(partition);
                if let Some(cuts) = &mut self.cuts {
                    cuts.copied(&mut self.parts, partition, next, replayed);
                    return self.parts.resume();
                }
                if !early {
                    self.parts.writer.advance(partition, next);
                }
                if fault!(TombstonesFreedEarly) && next.is_none() {
                    let partition = self.parts.spec.partitions[partition];
                    store.sweep_tombstones(partition.first(), partition.last(), usize::MAX);
                }
                self.priority.wake_covered(&mut self.parts, covers);
                self.parts.resume();
                self.finish_if_all_here(store);
                self.meet_copies(store);
            }
            Err(untaken) => {
                self.pulls.rewind(&mut self.parts.governor, partition, covers.first());
                self.untaken(now, store, Lane::Bulk, untaken);
            }
        }
    }

    /// Arrived records were not taken: pulls pause, or the connection is closed.
    pub(super) fn untaken(&mut self, now: MonotonicUs, store: &Store, lane: Lane, why: Untaken) {
        match why {
            Untaken::OutOfMemory => self.stall(now, store),
            Untaken::NotHeld(_) => {
                let reason = "a patch of what is not here".to_owned();
                self.parts.breach(lane, Breach::CorruptBatch(reason));
            }
            Untaken::Corrupt(reason) => self.parts.breach(lane, Breach::CorruptBatch(reason)),
        }
    }

    fn stall(&mut self, now: MonotonicUs, store: &Store) {
        let wait_us = match &self.parts.stall {
            Some(stall) => (stall.wait_us * 2).min(STALL_US_MAX),
            None => STALL_US,
        };
        if self.parts.stall.is_none() {
            self.parts.events.push_back(TargetEvent::Stalled);
        }
        if self.parts.phase() == ImportPhase::Filling {
            // The stall may last for ever, and a client that would free memory by deleting keys of the range
            // would wait for that memory.
            self.throw_copy_away(store);
            self.parts.activate(store);
            self.parts.events.push_back(TargetEvent::Activated);
        }
        self.parts.stall = Some(Stall { retry_at: Some(now.plus_us(wait_us)), wait_us });
    }
}
