//! The end at the target: completion, flush, and the sweep of tombstones.
//!
//! M6: tombstones stay until nothing can be replayed any more *and* every worker uses a range table without
//! the import: a worker with the older table may still be about to leave one. M8 (the other end) and M6 both
//! wait for the same proof. M10: after completion every reply is late, and ignored.

use super::Importer;
use crate::tuning::{RELEASE_PAUSE_US, RELEASE_SLICE_RECORDS};
use crate::{BarrierPassed, ImportPhase, TargetEvent, Waiter};
use sidle_store::Store;
use sidle_types::{MonotonicUs, Position, fault};

/// The sweep of tombstones after the migration.
#[derive(Debug)]
pub(super) enum Sweep {
    NotYet,
    At { next: Position, due: MonotonicUs },
    Finished,
}

impl Sweep {
    pub(super) fn deadline(&self) -> Option<MonotonicUs> {
        match self {
            Sweep::At { due, .. } => Some(*due),
            Sweep::NotYet | Sweep::Finished => None,
        }
    }
}

impl Importer {
    pub(super) fn finish_if_all_here(&mut self) {
        let lacks_changes = self.changes.as_ref().is_some_and(|changes| !changes.all_here());
        let view = self.writer.view();
        if !lacks_changes && view.source_is_frozen() && self.is_all_pulled() {
            self.complete();
        }
    }

    /// Nothing will be replayed any more.
    fn complete(&mut self) {
        let was_serving = self.writer.view().activated();
        self.writer.complete();
        if !was_serving {
            self.events.push_back(TargetEvent::Activated);
        }
        self.pulls.stop();
        self.changes = None;
        self.samples.stop();
        self.probes.stop();
        self.stall = None;
        self.wake_all_waiting();
        self.events.push_back(TargetEvent::Finished);
    }

    /// FLUSHALL: what has not arrived is absent for good. Replay belongs to this thread, so none is under
    /// way.
    pub(super) fn flush(&mut self, waiter: Waiter) {
        let phase = self.writer.view().phase();
        if !self.writer.view().source_is_frozen() {
            // M3: the flush itself may not be acknowledged before activation.
            return self.flushes.push(waiter);
        }
        // First the flush: who waits for a key that will not come reads it as absent, as after the flush.
        self.events.push_back(TargetEvent::Flushed(waiter));
        if phase.takes_records() && !fault!(FlushLeavesLateRecords) {
            self.complete();
        }
    }

    /// `Done` is committed, and no worker leaves tombstones any more.
    pub(super) fn begin_sweep(&mut self, now: MonotonicUs, passed: BarrierPassed) {
        let phase = self.writer.view().phase();
        assert_eq!(
            phase,
            ImportPhase::Complete,
            "M6: done (publication {}) before all is here",
            passed.epoch()
        );
        if matches!(self.sweep, Sweep::NotYet) {
            self.sweep = Sweep::At { next: self.spec.range.first(), due: now };
        }
    }

    pub(super) fn sweep_slice(&mut self, now: MonotonicUs, store: &Store) {
        let Sweep::At { next, due } = self.sweep else { return };
        if due > now {
            return;
        }
        assert_eq!(self.writer.view().phase(), ImportPhase::Complete, "M6: tombstones outlive replay");
        self.sweep = match store.sweep_tombstones(next, self.spec.range.last(), RELEASE_SLICE_RECORDS) {
            Some(next) => Sweep::At { next, due: now.plus_us(RELEASE_PAUSE_US) },
            None => {
                self.events.push_back(TargetEvent::Ended);
                Sweep::Finished
            }
        };
    }
}
