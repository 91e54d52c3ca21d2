//! The end at the source: "done, ask the target", then memory goes back in small slices.
//!
//! M8: nothing is discarded before `Done` is committed, and not before every worker uses a range table from
//! after that: a worker that still answered a frozen read could otherwise miss a record that was just
//! released, and say "absent". (Valkey 9.1.2 stalls for about a second per 1.5 million keys exactly here;
//! hence the slices.)

use super::Exporter;
use crate::tuning::{RELEASE_PAUSE_US, RELEASE_SLICE_RECORDS};
use crate::{BarrierPassed, ExportPhase, SourceEvent};
use sidle_store::Store;
use sidle_types::{MonotonicUs, Position, fault};

/// Giving the memory back.
#[derive(Debug)]
pub(super) enum Release {
    NotDone,
    At { next: Position, due: MonotonicUs },
    Finished,
}

impl Release {
    pub(super) fn deadline(&self) -> Option<MonotonicUs> {
        match self {
            Release::At { due, .. } => Some(*due),
            Release::NotDone | Release::Finished => None,
        }
    }
}

impl Exporter {
    /// The coordinator committed `Done`: from here on nothing is answered from frozen data.
    pub(super) fn finish(&mut self, store: &Store) {
        if self.writer.view().phase() == ExportPhase::Done {
            return;
        }
        let frozen = self.activation.frozen().expect("M8: a migration that was never frozen cannot be done");
        // Versions are counted by slot, so only whole slots tell whether anything in the range was written
        // since.
        if self.spec.range.is_whole_slots() {
            let highest = store.highest_version(self.spec.range);
            assert_eq!(
                highest, frozen.highest_version,
                "M2: a record changed at the source after the freeze"
            );
        }
        self.writer.finish();
        sidle_wire::Lane::ALL.into_iter().for_each(|lane| self.requests.forget(lane));
    }

    /// Every worker knows that it is over.
    pub(super) fn begin_release(&mut self, now: MonotonicUs, passed: BarrierPassed) {
        assert_eq!(self.writer.view().phase(), ExportPhase::Done, "M8: release before `Done` is committed");
        let frozen = self.activation.frozen().expect("M8: done, so frozen");
        assert!(passed.epoch() > frozen.publication, "M8: this barrier passed before the migration was done");
        if matches!(self.release, Release::NotDone) {
            self.release = Release::At { next: self.spec.range.first(), due: now };
        }
    }

    pub(super) fn release_slice(&mut self, now: MonotonicUs, store: &Store) {
        let Release::At { next, due } = self.release else { return };
        if due > now {
            return;
        }
        assert_eq!(self.writer.view().phase(), ExportPhase::Done, "M8: records are discarded only when done");
        let mut last = self.spec.range.last();
        if fault!(ReleaseLeavesRecords) {
            last = self.spec.partitions[self.spec.partitions.len() - 1].first();
        }
        self.release = match store.discard(next, last, RELEASE_SLICE_RECORDS) {
            Some(next) => Release::At { next, due: now.plus_us(RELEASE_PAUSE_US) },
            None => {
                self.events.push_back(SourceEvent::Ended);
                Release::Finished
            }
        };
    }
}
