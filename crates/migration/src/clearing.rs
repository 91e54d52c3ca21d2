//! Clearing ranges that nobody serves, in small slices, so that the mover has time for other work.

use crate::tuning::{RELEASE_PAUSE_US, RELEASE_SLICE_RECORDS};
use sidle_store::Store;
use sidle_types::{MonotonicUs, PositionRange};
use std::collections::VecDeque;

/// Ranges whose records are being discarded.
#[derive(Debug)]
pub(crate) struct Clearing {
    ranges: VecDeque<PositionRange>,
    due: MonotonicUs,
}

impl Clearing {
    /// The first slice is due now.
    pub(crate) fn begin(now: MonotonicUs, ranges: impl IntoIterator<Item = PositionRange>) -> Clearing {
        Clearing { ranges: ranges.into_iter().collect(), due: now }
    }

    /// When the next slice is due.
    pub(crate) fn deadline(&self) -> MonotonicUs {
        self.due
    }

    /// Discards a slice, if it is due; whether nothing is left.
    pub(crate) fn slice(&mut self, now: MonotonicUs, store: &Store) -> bool {
        if self.due > now {
            return false;
        }
        self.due = now.plus_us(RELEASE_PAUSE_US);
        for _ in 0..RELEASE_SLICE_RECORDS {
            let Some(range) = self.ranges.pop_front() else { return true };
            let next = store.discard(range.first(), range.last(), RELEASE_SLICE_RECORDS);
            if let Some(rest) = next.and_then(|next| PositionRange::new(next, range.last())) {
                self.ranges.push_front(rest);
                return false;
            }
        }
        self.ranges.is_empty()
    }
}
