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
//!
//! With them go large collections, if these are copied ahead too: the largest, as far as they fit into the
//! frame. Their changes are not marked, since their versions say what has changed (M32).
//!
//! Of a range that is given bit by bit, large collections are named as well: the target does not take them
//! out of turn for a command, but sends the command here.

use super::cuts::Cuts;
use super::parts::SourceParts;
use crate::tuning::{HINTED_BYTES_MAX, HINTS_EVERY_US, HINTS_WAITING_MAX, LOOK_FOR_LARGE, RELEASE_PAUSE_US};
use crate::{BarrierPassed, ExportPhase, SourceEvent};
use sidle_store::Store;
use sidle_types::{Fill, MonotonicUs, Position, fault};
use sidle_wire::HotHints;
use sidle_wire::limits::{HOT_HINTS_MAX, LARGE_HINTS_MAX};
use std::cmp::Reverse;
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
    /// Large collections that are copied before the freeze, and how large they are.
    collections: Vec<(Position, u64)>,
}

/// How far the copies before the freeze are prepared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Ahead {
    /// Changes there are not marked.
    #[default]
    NotYet,
    /// The step from which on they are is asked for, or awaited.
    Stepping,
    /// Large collections are looked for, from this one on.
    Looking(u32),
    /// They are to be named.
    ToBeNamed,
    /// They are named, and may be copied.
    Named,
}

impl Hints {
    /// Those known before the migration.
    pub(super) fn new(parts: &SourceParts) -> Hints {
        let mut hints = Hints::default();
        if !parts.spec.protocol.names_ahead() {
            hints.offer(parts, parts.writer.view().known_hot().iter().copied());
        }
        hints
    }

    /// The target is connected, or the range is tracked: if both are so, what is hot or large is copied
    /// ahead.
    pub(super) fn copy_ahead(&mut self, parts: &mut SourceParts, now: MonotonicUs, is_connected: bool) {
        let is_tracked = parts.phase() == ExportPhase::Tracking;
        let names_any = parts.spec.protocol.names_ahead() || parts.spec.protocol.names_large();
        if !names_any || !is_tracked || !is_connected {
            return;
        }
        match self.ahead {
            Ahead::NotYet if parts.spec.protocol.copies_hot_ahead() => {
                self.ahead = Ahead::Stepping;
                parts.events.push_back(SourceEvent::Step);
            }
            Ahead::NotYet => self.look(parts, now),
            Ahead::Named => self.ahead = Ahead::ToBeNamed,
            Ahead::Stepping | Ahead::Looking(_) | Ahead::ToBeNamed => {}
        }
    }

    /// Looks for large collections, if these are named.
    fn look(&mut self, parts: &SourceParts, now: MonotonicUs) {
        if parts.spec.protocol.copies_collections_ahead() || parts.spec.protocol.names_large() {
            (self.ahead, self.look_at) = (Ahead::Looking(0), Some(now));
        } else {
            self.ahead = Ahead::ToBeNamed;
        }
    }

    /// Looks at some collections, from this one on.
    fn look_on(&mut self, parts: &SourceParts, now: MonotonicUs, store: &Store, from: u32) {
        let large_bytes = parts.spec.piece_bytes() as u64;
        let (found, next) = store.large_collections(parts.spec.range, large_bytes, (from, LOOK_FOR_LARGE));
        self.collections.extend(found);
        self.collections.sort_unstable_by_key(|&(position, bytes)| (Reverse(bytes), position));
        self.collections.truncate(LARGE_HINTS_MAX);
        self.look_at = match next {
            Some(_) => Some(now.plus_us(RELEASE_PAUSE_US)),
            None if parts.spec.protocol.names_large() => next_look(parts, now),
            None => None,
        };
        self.ahead = next.map_or(Ahead::ToBeNamed, Ahead::Looking);
    }

    /// The step asked for counts from this number on.
    pub(super) fn publish_step(&mut self, parts: &mut SourceParts, number: u64) {
        let is_late = fault!(HotCopyBeforeTrackingBarrier);
        parts.writer.watch(number + u64::from(is_late));
    }

    /// Every worker marks its changes at these positions.
    pub(super) fn stepped(&mut self, parts: &SourceParts, now: MonotonicUs, _passed: BarrierPassed) {
        assert_eq!(self.ahead, Ahead::Stepping, "M28: behind the barrier of the step that was asked for");
        self.look(parts, now);
    }

    /// Whether copies may have been made before the freeze.
    pub(super) fn may_be_copied(&self) -> bool {
        matches!(self.ahead, Ahead::Looking(_) | Ahead::ToBeNamed | Ahead::Named)
    }

    /// The range is being given: looks for large collections, and then for hot positions.
    pub(super) fn begin(&mut self, parts: &SourceParts, now: MonotonicUs) {
        self.look(parts, now);
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

    pub(super) fn timeout(&mut self, parts: &SourceParts, now: MonotonicUs, store: &Store) {
        if self.look_at.is_none_or(|at| at > now) {
            return;
        }
        if let Ahead::Looking(from) = self.ahead {
            return self.look_on(parts, now, store, from);
        }
        self.look_at = next_look(parts, now);
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
            let names_hot = parts.spec.protocol.names_ahead();
            let known = parts.writer.view().known_hot().iter().copied().filter(|_| names_hot);
            let named: Vec<_> = known.filter(|&position| is_small(parts, store, position)).collect();
            let collections: Vec<_> = self.collections.iter().map(|&(position, _)| position).collect();
            HotHints::write(parts.scope, &named, &collections, out);
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
            HotHints::write(parts.scope, &named, &[], out);
        }
        !named.is_empty()
    }
}

/// When to look for hot positions again.
fn next_look(parts: &SourceParts, now: MonotonicUs) -> Option<MonotonicUs> {
    parts.spec.protocol.hot_first.then(|| now.plus_us(HINTS_EVERY_US))
}

/// Whether what stands at a position may go out of turn.
fn is_small(parts: &SourceParts, store: &Store, position: Position) -> bool {
    store.packed_bytes_at(position) <= HINTED_BYTES_MAX.min(parts.spec.piece_bytes())
}
