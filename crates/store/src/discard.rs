//! Removing entries from a range: all of them, or tombstones only. In slices, so that nothing waits long.

use crate::bucket::Word;
use crate::slot_table::Place;
use crate::store::Store;
use crate::writer::SlotGuard;
use sidle_types::{Position, PositionRange};

/// Buckets emptied under one hold of a slot's lock.
const BUCKETS_PER_LOCK: usize = 16;

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Everything,
    Tombstones,
}

impl Store {
    /// Removes everything from `from` to `last`, values and tombstones, about `budget` entries; returns where
    /// to continue. The cleaner may use their memory at once.
    pub fn discard(&self, from: Position, last: Position, budget: usize) -> Option<Position> {
        self.take_out(What::Everything, from, last, budget)
    }

    /// Removes the tombstones from `from` to `last`, visiting about `budget` entries; returns where to
    /// continue.
    pub fn sweep_tombstones(&self, from: Position, last: Position, budget: usize) -> Option<Position> {
        self.take_out(What::Tombstones, from, last, budget)
    }

    fn take_out(&self, what: What, from: Position, last: Position, budget: usize) -> Option<Position> {
        let range = PositionRange::new(from, last)?;
        let mut at = Some(from);
        let mut seen = 0;
        while let Some(from) = at {
            if seen >= budget.max(1) {
                return at;
            }
            let from = self.data.index.skip_empty(from).filter(|from| range.contains(*from))?;
            let slot = from.slot();
            let next = if what == What::Tombstones && self.data.index.slot(slot).tombstones() == 0 {
                Position::last_of(slot).next()
            } else {
                let guard = self.lock_slot(slot);
                // A table that shrank since may have visited entries in the present bucket.
                let rest = PositionRange::new(from, last).expect("inside the range");
                let next = take_out_buckets(&guard, what, rest, from, &mut seen);
                guard.shrink_table();
                next
            };
            at = next.filter(|next| range.contains(*next));
        }
        None
    }
}

/// Visits some buckets of the locked slot; returns where to continue.
fn take_out_buckets(
    guard: &SlotGuard<'_>,
    what: What,
    range: PositionRange,
    from: Position,
    seen: &mut usize,
) -> Option<Position> {
    let (data, pin) = (guard.data(), guard.pinned());
    let slot = from.slot();
    let mut found: Vec<(Place<'_>, Word<'_>, bool)> = Vec::new();
    let mut at = from;
    let mut next = Position::last_of(slot).next();
    for _ in 0..BUCKETS_PER_LOCK {
        let Some((span, positions)) = data.index.bucket_at(at, pin) else { break };
        *seen += 1;
        let whole = range.covers(positions);
        for (place, word) in span.entries(pin) {
            if what == What::Everything || word.kind().is_tombstone {
                data.log.prefetch(word.address());
                found.push((place, word, whole));
            }
        }
        next = positions.last().next();
        match next {
            Some(next) if next.slot() == slot && range.contains(next) => at = next,
            _ => break,
        }
    }
    *seen += found.len();
    for (place, word, whole) in found {
        if whole || range.contains(data.log.record(word.address(), pin).position()) {
            guard.clear(place, word);
        }
    }
    next
}

/// Removes what a locked slot has within a range.
pub(crate) fn clear_within(guard: &SlotGuard<'_>, range: PositionRange) {
    let (first, last) = (Position::first_of(guard.slot()), Position::last_of(guard.slot()));
    let part = PositionRange::new(range.first().max(first), range.last().min(last));
    let Some(part) = part.filter(|_| guard.table().entries() > 0) else { return };
    let mut from = Some(part.first());
    while let Some(at) = from {
        let rest = PositionRange::new(at, part.last()).expect("inside the range");
        from =
            take_out_buckets(guard, What::Everything, rest, at, &mut 0).filter(|next| part.contains(*next));
    }
    guard.shrink_table();
}
