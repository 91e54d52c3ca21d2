//! Hints: the source names hot positions that it keeps, and the target takes them with its next cuts.
//!
//! They come from the node's heat before the migration, and from its workers while it gives. M26: a hint is
//! sent once, and nothing depends on it. Positions with large records are left to their partition's turn,
//! since nobody serves what is in transit.
//!
//! Of a range that freezes whole, the positions known before are named in one frame, which may be empty: the
//! target copies them and waits for no others. M28: when it is connected, workers begin to mark their changes
//! there by a step, and the positions are named behind that step's barrier. So few are marked when the range
//! is frozen. Over a new connection they are named again.

use super::cuts::Cuts;
use super::parts::SourceParts;
use crate::tuning::{HINTED_BYTES_MAX, HINTS_EVERY_US, HINTS_WAITING_MAX};
use crate::{BarrierPassed, ExportPhase, SourceEvent};
use sidle_store::Store;
use sidle_types::{Fill, MonotonicUs, Position, fault};
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
    /// Of those that are copied before the freeze.
    ahead: Ahead,
}

/// How far the copies before the freeze are prepared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Ahead {
    /// Changes there are not marked.
    #[default]
    NotYet,
    /// The step from which on they are is asked for, or awaited.
    Stepping,
    /// They are to be named.
    ToBeNamed,
    /// They are named, and may be copied.
    Named,
}

impl Hints {
    /// Those known before the migration.
    pub(super) fn new(parts: &SourceParts) -> Hints {
        let mut hints = Hints::default();
        if !parts.spec.protocol.copies_hot_ahead() {
            hints.offer(parts, parts.writer.view().known_hot().iter().copied());
        }
        hints
    }

    /// The target is connected, or the range is tracked: if both are so, what is hot is copied ahead.
    pub(super) fn copy_ahead(&mut self, parts: &mut SourceParts, is_connected: bool) {
        let is_tracked = parts.phase() == ExportPhase::Tracking;
        if !parts.spec.protocol.copies_hot_ahead() || !is_tracked || !is_connected {
            return;
        }
        match self.ahead {
            Ahead::NotYet => {
                self.ahead = Ahead::Stepping;
                parts.events.push_back(SourceEvent::Step);
            }
            Ahead::Named => self.ahead = Ahead::ToBeNamed,
            Ahead::Stepping | Ahead::ToBeNamed => {}
        }
    }

    /// The step asked for counts from this number on.
    pub(super) fn publish_step(&mut self, parts: &mut SourceParts, number: u64) {
        let is_late = fault!(HotCopyBeforeTrackingBarrier);
        parts.writer.watch(number + u64::from(is_late));
    }

    /// Every worker marks its changes at these positions.
    pub(super) fn stepped(&mut self, _passed: BarrierPassed) {
        assert_eq!(self.ahead, Ahead::Stepping, "M28: behind the barrier of the step that was asked for");
        self.ahead = Ahead::ToBeNamed;
    }

    /// Whether copies may have been made before the freeze.
    pub(super) fn may_be_copied(&self) -> bool {
        matches!(self.ahead, Ahead::ToBeNamed | Ahead::Named)
    }

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
        if self.ahead == Ahead::ToBeNamed && parts.phase() == ExportPhase::Tracking {
            self.ahead = Ahead::Named;
            let known = parts.writer.view().known_hot().iter().copied();
            let named: Vec<_> = known.filter(|&position| is_small(parts, store, position)).collect();
            HotHints::write(parts.scope, &named, out);
            return true;
        }
        let Some(cuts) = cuts.filter(|_| parts.phase() == ExportPhase::Tracking) else { return false };
        let mut named = Vec::new();
        while named.len() < HOT_HINTS_MAX {
            let Some(position) = self.waiting.pop_front() else { break };
            self.known.remove(&position);
            let is_kept =
                parts.writer.view().began_with(position) && cuts.keeps(&parts.spec.partitions, position);
            if is_kept && is_small(parts, store, position) {
                named.push(position);
            }
        }
        if !named.is_empty() {
            HotHints::write(parts.scope, &named, out);
        }
        !named.is_empty()
    }
}

/// Whether what stands at a position may go out of turn.
fn is_small(parts: &SourceParts, store: &Store, position: Position) -> bool {
    store.packed_bytes_at(position) <= HINTED_BYTES_MAX.min(parts.spec.piece_bytes())
}
