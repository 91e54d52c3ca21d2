//! The sweep of tombstones after the migration.
//!
//! M6: tombstones stay until nothing can be replayed any more *and* every worker uses a range table without
//! the import: a worker with the older table may still leave one. M8 (the other end) and M6 both wait for the
//! same proof.

use super::parts::TargetParts;
use crate::tuning::{RELEASE_PAUSE_US, RELEASE_SLICE_RECORDS};
use crate::{BarrierPassed, ImportPhase, TargetEvent};
use sidle_store::Store;
use sidle_types::{MonotonicUs, Position};

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

    /// `Done` is committed, and no worker leaves tombstones any more.
    pub(super) fn begin(&mut self, parts: &TargetParts, now: MonotonicUs, passed: BarrierPassed) {
        let phase = parts.phase();
        assert_eq!(
            phase,
            ImportPhase::Complete,
            "M6: done (publication {}) before all is here",
            passed.epoch()
        );
        if matches!(self, Sweep::NotYet) {
            *self = Sweep::At { next: parts.spec.range.first(), due: now };
        }
    }

    pub(super) fn slice(&mut self, parts: &mut TargetParts, now: MonotonicUs, store: &Store) {
        let Sweep::At { next, due } = *self else { return };
        if due > now {
            return;
        }
        assert_eq!(parts.phase(), ImportPhase::Complete, "M6: tombstones outlive replay");
        *self = match store.sweep_tombstones(next, parts.spec.range.last(), RELEASE_SLICE_RECORDS) {
            Some(next) => Sweep::At { next, due: now.plus_us(RELEASE_PAUSE_US) },
            None => {
                parts.events.push_back(TargetEvent::Ended);
                Sweep::Finished
            }
        };
    }
}
