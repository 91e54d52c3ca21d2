//! The end at the source: "done, ask the target", then memory is freed in small slices.
//!
//! M8: nothing is discarded before `Done` is committed, nor before every worker uses a range table from after
//! that. A worker that still answered a frozen read could otherwise miss a released record, and answer
//! "absent". (Valkey 9.1.2 stalls for about a second per 1.5 million keys exactly here; hence the slices.)

use super::activation::Frozen;
use super::parts::SourceParts;
use crate::tuning::{RELEASE_PAUSE_US, RELEASE_SLICE_RECORDS};
use crate::{BarrierPassed, ExportPhase, SourceEvent};
use sidle_store::Store;
use sidle_types::{MonotonicUs, Position, fault};

/// The release of the memory.
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

    /// Every worker knows that it is over.
    pub(super) fn begin(
        &mut self,
        parts: &SourceParts,
        frozen: Option<Frozen>,
        now: MonotonicUs,
        passed: BarrierPassed,
    ) {
        assert_eq!(parts.phase(), ExportPhase::Done, "M8: release before `Done` is committed");
        let frozen = frozen.expect("M8: done, so frozen");
        assert!(passed.epoch() > frozen.publication, "M8: this barrier passed before the migration was done");
        if matches!(self, Release::NotDone) {
            *self = Release::At { next: parts.spec.range.first(), due: now };
        }
    }

    pub(super) fn slice(&mut self, parts: &mut SourceParts, now: MonotonicUs, store: &Store) {
        let Release::At { next, due } = *self else { return };
        if due > now {
            return;
        }
        assert_eq!(parts.phase(), ExportPhase::Done, "M8: records are discarded only when done");
        let mut last = parts.spec.range.last();
        if fault!(ReleaseLeavesRecords) {
            last = parts.spec.partitions[parts.spec.partitions.len() - 1].first();
        }
        *self = match store.discard(next, last, RELEASE_SLICE_RECORDS) {
            Some(next) => Release::At { next, due: now.plus_us(RELEASE_PAUSE_US) },
            None => {
                parts.events.push_back(SourceEvent::Ended);
                Release::Finished
            }
        };
    }
}
