//! Clears ranges without a mover, in slices.

use sidle_migration::BarrierPassed;
use sidle_store::Store;
use sidle_types::{MigrationId, MonotonicUs, Position, PositionRange};
use std::collections::VecDeque;

/// How many records one slice handles.
const SLICE_RECORDS: usize = 512;
/// The control's time for other work between two slices.
const SLICE_PAUSE_US: u64 = 200;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Everything,
    Tombstones,
}

#[derive(Debug)]
struct Job {
    what: What,
    range: PositionRange,
    next: Position,
    /// The import that ends once the range is clear.
    of: Option<MigrationId>,
}

/// Ranges to be cleared, one after the other.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    queue: VecDeque<Job>,
    due: MonotonicUs,
}

impl Jobs {
    /// Clears ranges that no worker serves or reads any more, by the barrier's proof.
    pub(super) fn discard(&mut self, ranges: Vec<PositionRange>, _proof: BarrierPassed) {
        ranges.into_iter().for_each(|range| self.push(What::Everything, range, None));
    }

    /// Clears the tombstones of a range in which no worker leaves any, by the barrier's proof.
    pub(super) fn sweep(&mut self, range: PositionRange, _proof: BarrierPassed) {
        self.push(What::Tombstones, range, None);
    }

    /// Clears the range of an import that was given up before its activation: no worker has served anything
    /// in it (M3), and none does before it is clear.
    pub(super) fn clear_unserved(&mut self, id: MigrationId, range: PositionRange) {
        self.push(What::Everything, range, Some(id));
    }

    fn push(&mut self, what: What, range: PositionRange, of: Option<MigrationId>) {
        self.queue.push_back(Job { what, range, next: range.first(), of });
    }

    /// Whether part of the range is still to be cleared.
    pub(super) fn overlaps(&self, range: PositionRange) -> bool {
        self.queue.iter().any(|job| job.range.overlaps(range))
    }

    /// How many ranges are to be cleared.
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    /// When the next slice is due.
    pub(super) fn deadline(&self) -> Option<MonotonicUs> {
        (!self.queue.is_empty()).then_some(self.due)
    }

    /// Clears one slice if it is due; returns the import that ends with it.
    pub(super) fn run(&mut self, now: MonotonicUs, store: &Store) -> Option<MigrationId> {
        if self.deadline().is_none_or(|due| due > now) {
            return None;
        }
        self.due = now.plus_us(SLICE_PAUSE_US);
        let job = self.queue.front_mut()?;
        let next = match job.what {
            What::Everything => store.discard(job.next, job.range.last(), SLICE_RECORDS),
            What::Tombstones => store.sweep_tombstones(job.next, job.range.last(), SLICE_RECORDS),
        };
        match next {
            Some(next) => {
                job.next = next;
                None
            }
            None => self.queue.pop_front()?.of,
        }
    }
}
