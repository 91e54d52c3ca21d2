//! Active expiry: removes expired keys that nobody reads.
//!
//! Readers treat an expired value as absent at once; this only frees its memory. In a frozen range nothing is
//! removed (M2). In an importing range a removal leaves a tombstone (M6), or the source's copy would
//! reappear. What is being copied is marked (M11).
//!
//! Two things drive it. A worker visits its keys regularly, and continues while many of them have expired,
//! for a bounded share of its time ([`ExpiryEffort`]). And a write without memory first removes expired keys,
//! segment by segment, and runs again.

use crate::execute::Executor;
use crate::range_table::{RangeTable, Role};
use crate::stats::WorkerStats;
use sidle_store::{Expiring, ExpirySweep, Leave};
use sidle_types::{Position, WallMs, fault};
use std::sync::atomic::Ordering::Relaxed;

/// The time of one removal slice, in microseconds: a client may have to wait for it.
pub const EXPIRY_SLICE_US: u64 = 1_000;
/// The most time from one tick to the next. Ticks are a tenth of a second apart, so this is a quarter of a
/// worker's time.
const EXPIRY_TICK_US: u64 = 25_000;
/// It continues while more than one in so many of the visited values had expired, as in Redis.
const EXPIRY_GOES_ON_SHARE: usize = 10;
/// How much a write without memory visits: segments, or as many values elsewhere as a segment may hold.
const STEPS_FOR_A_WRITE: usize = 64;
const VALUES_PER_STEP: usize = 4_096;
/// After so many visits elsewhere without an expired key it is refused; the next one continues there.
const BARREN_STEPS: usize = 4;

/// The time that a worker still gives to expiry until its next tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExpiryEffort {
    left_us: u64,
}

impl ExpiryEffort {
    /// A tick: there is something to look at again.
    pub fn tick(&mut self) {
        self.left_us = EXPIRY_TICK_US;
    }

    /// Whether to visit more before the next tick.
    pub fn goes_on(self) -> bool {
        self.left_us != 0
    }

    /// Notes the visited values and the time spent. Few expired ones end it until the next tick.
    pub fn spent(&mut self, sweep: ExpirySweep, us: u64) {
        let is_worth_more = sweep.removed * EXPIRY_GOES_ON_SHARE > sweep.looked;
        // A clock too coarse to measure the time must not make it endless.
        self.left_us = if is_worth_more { self.left_us.saturating_sub(us.max(1)) } else { 0 };
    }
}

/// What a worker may remove, and what it notes of it.
struct ByRole<'w> {
    ranges: &'w RangeTable,
    step: u64,
    stats: &'w WorkerStats,
}

impl Expiring for ByRole<'_> {
    fn leave(&mut self, position: Position) -> Option<Leave> {
        match &self.ranges.entry_at(position).role {
            Role::Owned => Some(Leave::Nothing),
            Role::Exporting(_) if fault!(FrozenSourceExpires) => Some(Leave::Nothing),
            Role::Importing(view) if view.activated() && fault!(ExpiryLeavesNoTombstone) => {
                Some(Leave::Nothing)
            }
            Role::Importing(view) if view.is_by_cuts() => {
                view.has_arrived(position).then(|| view.left_by_removal())
            }
            Role::Importing(view) if view.activated() => Some(view.left_by_removal()),
            Role::Exporting(view) if view.keeps(position, self.step) => Some(Leave::Nothing),
            _ => None,
        }
    }

    fn removed(&mut self, position: Position) {
        self.stats.expired.add(1);
        self.ranges.entry_at(position).mark(position, self.step);
    }
}

impl Executor {
    /// Visits about `budget` values with a deadline, from where the last call ended, and removes expired
    /// ones. Ends at the last position; the next call begins at the first.
    pub(crate) fn expire(&mut self, now: WallMs, budget: usize) -> ExpirySweep {
        if !self.shared.expires_actively.load(Relaxed) || self.shared.loading.is_on() {
            return ExpirySweep::default();
        }
        let mut by_role = ByRole { ranges: &self.ranges, step: self.step, stats: &self.stats };
        let sweep = self.store.expire(&mut self.head, self.expires_from, now, budget, &mut by_role);
        self.expires_from = sweep.next.unwrap_or(Position::FIRST);
        sweep
    }

    /// Removes expired values until a request of so many bytes fits; whether it does now. For a write without
    /// memory. A result of nothing expired holds until the wall clock advances.
    #[cold]
    pub(crate) fn expire_for(&mut self, now: WallMs, bytes: usize) -> bool {
        if self.nothing_expired_at == Some(now) {
            return false;
        }
        let mut barren = 0;
        for _ in 0..STEPS_FOR_A_WRITE {
            let mut by_role = ByRole { ranges: &self.ranges, step: self.step, stats: &self.stats };
            let segment = self.store.expire_segment(&mut self.head, now, &mut by_role);
            let removed = match segment {
                Some(sweep) => sweep.removed,
                // The rest is in open segments, or is large.
                None => {
                    let from = self.expires_from;
                    let sweep = self.expire(now, VALUES_PER_STEP);
                    if sweep.removed == 0 && sweep.next.is_none() && from == Position::FIRST {
                        self.nothing_expired_at = Some(now);
                        return false;
                    }
                    barren += usize::from(sweep.removed == 0);
                    sweep.removed
                }
            };
            if removed != 0 && self.store.make_room(bytes) {
                return true;
            }
            if barren == BARREN_STEPS {
                return false;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sweep(looked: usize, removed: usize) -> ExpirySweep {
        ExpirySweep { looked, removed, next: None }
    }

    #[test]
    fn effort_goes_on_while_much_has_expired_up_to_a_quarter_of_the_time() {
        let mut effort = ExpiryEffort::default();
        assert!(!effort.goes_on());
        for (found, slices) in
            [(sweep(256, 256), 25), (sweep(256, 26), 25), (sweep(256, 25), 1), (sweep(0, 0), 1)]
        {
            effort.tick();
            let mut count = 0;
            while effort.goes_on() {
                effort.spent(found, EXPIRY_SLICE_US);
                count += 1;
            }
            assert_eq!(count, slices, "{found:?}");
        }
        effort.tick();
        (0..EXPIRY_TICK_US).for_each(|_| effort.spent(sweep(1, 1), 0));
        assert!(!effort.goes_on());
    }
}
