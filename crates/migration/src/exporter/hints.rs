//! Hints: the source names hot positions that it keeps, and the target takes them with its next cuts.
//!
//! They come from the node's heat before the migration, and from its workers while it gives. M26: a hint is
//! sent once, and nothing depends on it. Positions with large records are left to their partition's turn,
//! since nobody serves what is in transit.

use super::cuts::Cuts;
use super::parts::SourceParts;
use crate::ExportPhase;
use crate::tuning::{HINTED_BYTES_MAX, HINTS_EVERY_US, HINTS_WAITING_MAX};
use sidle_store::Store;
use sidle_types::{Fill, MonotonicUs, Position};
use sidle_wire::HotHints;
use sidle_wire::limits::HOT_HINTS_MAX;
use std::collections::{BTreeSet, VecDeque};

/// Hot positions that wait for their frame.
#[derive(Debug, Default)]
pub(super) struct Hints {
    /// In the order they came.
    waiting: VecDeque<Position>,
    known: BTreeSet<Position>,
    /// When to look for new ones.
    look_at: Option<MonotonicUs>,
}

impl Hints {
    /// The range is being given: looks for hot positions from now on.
    pub(super) fn begin(&mut self, parts: &SourceParts, now: MonotonicUs) {
        self.look_at = parts.spec.protocol.hot_first.then(|| now.plus_us(HINTS_EVERY_US));
    }

    /// These positions are hot.
    pub(super) fn offer(&mut self, parts: &SourceParts, positions: impl IntoIterator<Item = Position>) {
        for position in positions {
            let is_wanted = parts.spec.protocol.hot_first
                && parts.spec.range.contains(position)
                && self.waiting.len() < HINTS_WAITING_MAX;
            if is_wanted && self.known.insert(position) {
                self.waiting.push_back(position);
            }
        }
    }

    /// How full the queue is.
    pub(super) fn queue(&self) -> Fill {
        Fill::new("hot positions to be named", self.waiting.len(), HINTS_WAITING_MAX)
    }

    pub(super) fn timeout(&mut self, parts: &SourceParts, now: MonotonicUs) {
        if self.look_at.is_none_or(|at| at > now) {
            return;
        }
        self.begin(parts, now);
        if parts.phase() == ExportPhase::Tracking {
            self.offer(parts, parts.writer.take_hot());
        } else {
            *self = Hints::default();
        }
    }

    pub(super) fn deadline(&self) -> Option<MonotonicUs> {
        self.look_at
    }

    /// Names the next positions.
    pub(super) fn transmit(
        &mut self,
        parts: &mut SourceParts,
        store: &Store,
        cuts: Option<&Cuts>,
        out: &mut Vec<u8>,
    ) -> bool {
        let Some(cuts) = cuts.filter(|_| parts.phase() == ExportPhase::Tracking) else { return false };
        let most_bytes = HINTED_BYTES_MAX.min(parts.spec.piece_bytes());
        let mut named = Vec::new();
        while named.len() < HOT_HINTS_MAX {
            let Some(position) = self.waiting.pop_front() else { break };
            self.known.remove(&position);
            let is_kept =
                parts.writer.view().began_with(position) && cuts.keeps(&parts.spec.partitions, position);
            if is_kept && bytes_at(store, position) <= most_bytes {
                named.push(position);
            }
        }
        if !named.is_empty() {
            HotHints::write(parts.scope, &named, out);
        }
        !named.is_empty()
    }
}

fn bytes_at(store: &Store, position: Position) -> usize {
    let mut bytes = 0;
    store.visit(position, position, usize::MAX, &mut |record| bytes += record.packed_bytes());
    bytes
}
