//! Clears ranges without a mover, in slices.

use sidle_migration::BarrierPassed;
use sidle_store::Store;
use sidle_types::{MigrationId, MonotonicUs, PositionRange};
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
    /// What is left.
    ranges: VecDeque<PositionRange>,
    /// The import that ends, or goes on, once it is clear.
    of: Option<MigrationId>,
}

impl Job {
    /// Clears a slice; whether nothing is left.
    fn slice(&mut self, store: &Store) -> bool {
        for _ in 0..SLICE_RECORDS {
            let Some(range) = self.ranges.pop_front() else { return true };
            let next = match self.what {
                What::Everything => store.discard(range.first(), range.last(), SLICE_RECORDS),
                What::Tombstones => store.sweep_tombstones(range.first(), range.last(), SLICE_RECORDS),
            };
            if let Some(left) = next.and_then(|next| PositionRange::new(next, range.last())) {
                self.ranges.push_front(left);
                return false;
            }
        }
        self.ranges.is_empty()
    }
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
        self.push(What::Everything, ranges, None);
    }

    /// Clears the tombstones of a range in which no worker leaves any, by the barrier's proof.
    pub(super) fn sweep(&mut self, range: PositionRange, _proof: BarrierPassed) {
        self.push(What::Tombstones, [range], None);
    }

    /// Clears ranges of an import in which no worker has served anything (M3, M23), and none does before they
    /// are clear.
    pub(super) fn clear_unserved(&mut self, id: MigrationId, ranges: &[PositionRange]) {
        self.push(What::Everything, ranges.iter().copied(), Some(id));
    }

    fn push(&mut self, what: What, ranges: impl IntoIterator<Item = PositionRange>, of: Option<MigrationId>) {
        let ranges: VecDeque<_> = ranges.into_iter().collect();
        if !ranges.is_empty() {
            self.queue.push_back(Job { what, ranges, of });
        }
    }

    /// Whether part of the range is still to be cleared.
    pub(super) fn overlaps(&self, range: PositionRange) -> bool {
        self.queue.iter().flat_map(|job| &job.ranges).any(|job| job.overlaps(range))
    }

    /// How many clearings are under way.
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
        let is_clear = self.queue.front_mut()?.slice(store);
        if is_clear { self.queue.pop_front()?.of } else { None }
    }
}
