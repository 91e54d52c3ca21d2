//! Removing entries from a range: all of them, or tombstones only. In slices, so that nothing waits long.

use crate::bucket::Word;
use crate::log::LogHead;
use crate::range_key;
use crate::record::Draft;
use crate::slot_table::Place;
use crate::store::Store;
use crate::writer::SlotGuard;
use sidle_types::{Position, PositionRange, Version, fault};
use std::sync::Arc;

/// Buckets emptied under one hold of a slot's lock.
const BUCKETS_PER_LOCK: usize = 16;

/// What is removed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Everything,
    Tombstones,
    /// What has this version, or an earlier one: for a recovery.
    UpTo(Version),
    /// Tombstones of those.
    TombstonesUpTo(Version),
    /// Everything but where transactions have something at keys.
    Unlocked,
}

impl What {
    fn includes(self, guard: &SlotGuard<'_>, word: Word<'_>) -> bool {
        match self {
            What::Everything | What::Unlocked => true,
            What::Tombstones => word.kind().is_tombstone,
            What::UpTo(version) => guard.record(word).version() <= version,
            What::TombstonesUpTo(version) => {
                word.kind().is_tombstone && guard.record(word).version() <= version
            }
        }
    }
}

impl Store {
    /// Removes everything from `from` to `last`, values and tombstones, about `budget` entries; returns where
    /// to continue. The cleaner may use their memory at once.
    pub fn discard(&self, from: Position, last: Position, budget: usize) -> Option<Position> {
        self.take_out(What::Everything, from, last, budget, &mut Vec::new(), &mut |guard, part| {
            let mut change = Vec::new();
            cleared(guard, part, &mut change);
            self.commits().expect("there is a durable log").enter_aside(&mut change, guard.slot());
        })
    }

    /// Removes the tombstones from `from` to `last`, visiting about `budget` entries; returns where to
    /// continue.
    pub fn sweep_tombstones(&self, from: Position, last: Position, budget: usize) -> Option<Position> {
        self.take_out(What::Tombstones, from, last, budget, &mut Vec::new(), &mut |_, _| ())
    }

    /// Removes what has this version, or an earlier one, from a range. The durable log is not told.
    pub(crate) fn discard_up_to(&self, version: Version, range: PositionRange) {
        self.take_out(
            What::UpTo(version),
            range.first(),
            range.last(),
            usize::MAX,
            &mut Vec::new(),
            &mut |_, _| (),
        );
    }

    /// The same of tombstones.
    pub(crate) fn sweep_tombstones_up_to(&self, version: Version, range: PositionRange) {
        let what = What::TombstonesUpTo(version);
        self.take_out(what, range.first(), range.last(), usize::MAX, &mut Vec::new(), &mut |_, _| ());
    }

    /// Removes everything. The durable log is not told.
    pub(crate) fn forget_everything(&self) {
        let all = PositionRange::ALL;
        let what = What::Everything;
        self.take_out(what, all.first(), all.last(), usize::MAX, &mut Vec::new(), &mut |_, _| ());
    }

    /// `log` is called with a part of a locked slot before all of it is removed, if there is a durable log;
    /// `left` gets the positions of the part that are left alone.
    fn take_out(
        &self,
        what: What,
        from: Position,
        last: Position,
        budget: usize,
        left: &mut Vec<Position>,
        log: &mut dyn FnMut(&SlotGuard<'_>, PositionRange),
    ) -> Option<Position> {
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
                let log = &mut |part| log(&guard, part);
                let next = take_out_buckets(&guard, what, rest, from, &mut seen, left, log);
                guard.shrink_table();
                next
            };
            at = next.filter(|next| range.contains(*next));
        }
        None
    }
}

/// A removal in slices that the durable log has as a whole, or not at all (U4): when it is dropped, with all
/// that it removed. Meanwhile no commit is safe.
pub struct WholeDiscard {
    store: Arc<Store>,
    /// What it has removed.
    log: Vec<u8>,
}

impl WholeDiscard {
    /// Begins.
    pub fn begin(store: &Arc<Store>) -> WholeDiscard {
        if let Some(commits) = store.commits() {
            commits.begin_steps();
        }
        WholeDiscard { store: Arc::clone(store), log: Vec::new() }
    }

    /// As [`Store::discard`], but for the positions where transactions have something at keys: these are left
    /// alone, and appended to `left`.
    pub fn discard(
        &mut self,
        from: Position,
        last: Position,
        budget: usize,
        left: &mut Vec<Position>,
    ) -> Option<Position> {
        let WholeDiscard { store, log } = self;
        store.take_out(What::Unlocked, from, last, budget, left, &mut |guard, part| {
            cleared(guard, part, log);
            store.commits().expect("there is a durable log").note_step(guard.slot());
        })
    }
}

impl Drop for WholeDiscard {
    fn drop(&mut self) {
        if let Some(commits) = self.store.commits() {
            commits.end_steps(&mut self.log);
        }
    }
}

impl std::fmt::Debug for WholeDiscard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WholeDiscard").field("log_bytes", &self.log.len()).finish_non_exhaustive()
    }
}

/// Visits some buckets of the locked slot; returns where to continue. `log` is called with a range before all
/// of it is removed, if there is a durable log; `left` gets what is left alone.
fn take_out_buckets(
    guard: &SlotGuard<'_>,
    what: What,
    range: PositionRange,
    from: Position,
    seen: &mut usize,
    left: &mut Vec<Position>,
    log: &mut dyn FnMut(PositionRange),
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
            if what.includes(guard, word) {
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
    let last = next.and_then(Position::previous).map_or(range.last(), |last| last.min(range.last()));
    let part = PositionRange::new(from, last).expect("a bucket at least");
    let locked = match what {
        What::Unlocked if data.beside.is_any() => data.beside.positions_in(part),
        _ => Vec::new(),
    };
    if matches!(what, What::Everything | What::Unlocked) && data.log.commits.is_some() && !found.is_empty() {
        part.without_each(&locked).for_each(log);
    }
    let whole = |whole| whole && locked.is_empty();
    for (place, word, is_within) in found {
        let is_taken = || {
            let position = data.log.record(word.address(), pin).position();
            range.contains(position) && locked.binary_search(&position).is_err()
        };
        if whole(is_within) || is_taken() {
            guard.clear(place, word);
        }
    }
    left.extend(locked);
    next
}

/// The part of a range that lies in a locked slot with entries.
fn part_within(guard: &SlotGuard<'_>, range: PositionRange) -> Option<PositionRange> {
    let (first, last) = (Position::first_of(guard.slot()), Position::last_of(guard.slot()));
    let part = PositionRange::new(range.first().max(first), range.last().min(last));
    part.filter(|_| guard.table().entries() > 0)
}

/// The durable log's record of a removal of everything in a part of a locked slot.
fn cleared(guard: &SlotGuard<'_>, part: PositionRange, log: &mut Vec<u8>) {
    if !fault!(FlushNotLogged) {
        Draft::cleared(&range_key::key_of(part), guard.given_version()).append_to(log);
    }
}

/// Notes for the durable log that [`clear_within`] is about to be called.
pub(crate) fn note_cleared(guard: &SlotGuard<'_>, range: PositionRange, head: &mut LogHead) {
    if let Some(part) = part_within(guard, range) {
        head.note(|log| cleared(guard, part, log));
    }
}

/// Removes what a locked slot has within a range. The durable log is not told.
pub(crate) fn clear_within(guard: &SlotGuard<'_>, range: PositionRange) {
    let Some(part) = part_within(guard, range) else { return };
    let mut from = Some(part.first());
    while let Some(at) = from {
        let rest = PositionRange::new(at, part.last()).expect("inside the range");
        let left = &mut Vec::new();
        let next = take_out_buckets(guard, What::Everything, rest, at, &mut 0, left, &mut |_| ());
        from = next.filter(|next| part.contains(*next));
    }
    guard.shrink_table();
}
