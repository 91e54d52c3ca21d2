//! Clearing ranges that nobody serves, in small slices, so that the mover has time for other work.

use crate::tuning::{RELEASE_PAUSE_US, RELEASE_SLICE_RECORDS};
use sidle_store::Store;
use sidle_types::{MonotonicUs, Position, PositionRange};
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
        self.slice_by(now, &mut |range| discard(store, range))
    }

    /// The same of ranges in which nobody writes; `discarded` is called with how many values went.
    pub(crate) fn counted_slice(
        &mut self,
        now: MonotonicUs,
        store: &Store,
        discarded: &mut dyn FnMut(u64),
    ) -> bool {
        self.slice_by(now, &mut |range| {
            let before = store.len_in(range);
            let next = discard(store, range);
            discarded(before.saturating_sub(store.len_in(range)));
            next
        })
    }

    fn slice_by(
        &mut self,
        now: MonotonicUs,
        discard: &mut dyn FnMut(PositionRange) -> Option<Position>,
    ) -> bool {
        if self.due > now {
            return false;
        }
        self.due = now.plus_us(RELEASE_PAUSE_US);
        for _ in 0..RELEASE_SLICE_RECORDS {
            let Some(range) = self.ranges.pop_front() else { return true };
            if let Some(rest) = discard(range).and_then(|next| PositionRange::new(next, range.last())) {
                self.ranges.push_front(rest);
                return false;
            }
        }
        self.ranges.is_empty()
    }
}

fn discard(store: &Store, range: PositionRange) -> Option<Position> {
    store.discard(range.first(), range.last(), RELEASE_SLICE_RECORDS)
}
