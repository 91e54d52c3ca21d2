//! The end at the source: "done, ask the target", then memory is freed in small slices.
//!
//! M8: nothing is discarded before `Done` is committed, nor before every worker uses a range table from after
//! that. A worker that still answered a frozen read could otherwise miss a released record, and answer
//! "absent". (Valkey 9.1.2 stalls for about a second per 1.5 million keys exactly here; hence the slices.)

use super::activation::Frozen;
use super::parts::SourceParts;
use crate::clearing::Clearing;
use crate::{BarrierPassed, ExportPhase, SourceEvent};
use sidle_store::Store;
use sidle_types::{MonotonicUs, PositionRange, fault};

/// The release of the memory.
#[derive(Debug)]
pub(super) enum Release {
    NotDone,
    Under(Clearing),
    Finished,
}

impl Release {
    pub(super) fn deadline(&self) -> Option<MonotonicUs> {
        match self {
            Release::Under(clearing) => Some(clearing.deadline()),
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
        let mut range = parts.spec.range;
        if fault!(ReleaseLeavesRecords) {
            let last = parts.spec.partitions[parts.spec.partitions.len() - 1].first();
            range = PositionRange::new(range.first(), last).expect("a partition of it");
        }
        self.clear(now, [range]);
    }

    /// The records in these ranges are nobody's, for good.
    pub(super) fn clear(&mut self, now: MonotonicUs, ranges: impl IntoIterator<Item = PositionRange>) {
        if matches!(self, Release::NotDone) {
            *self = Release::Under(Clearing::begin(now, ranges));
        }
    }

    pub(super) fn slice(&mut self, parts: &mut SourceParts, now: MonotonicUs, store: &Store) {
        if let Release::Under(clearing) = self
            && clearing.slice(now, store)
        {
            parts.events.push_back(SourceEvent::Ended);
            *self = Release::Finished;
        }
    }
}
