//! Clearing what is here of a range that is given bit by bit, and not this node's.
//!
//! When such a migration turns back, no further cut is requested. The one in flight is finished: behind its
//! barrier the source owns none of it any more, so only here can it end (M20). Then inert copies go, and what
//! this node owns is settled. The coordinator ends the migration, and begins another one from here to the
//! source: the way back. Nothing given changes hands at that instant, so no barrier is needed: what the
//! source kept it keeps, and what this node owns it keeps until a cut of the way back gives it (M21).
//!
//! At the other end the way back begins with clearing what was given: outdated records would be taken for
//! copies of it (M24).

use crate::ImportView;
use crate::clearing::Clearing;
use sidle_store::Store;
use sidle_types::{MonotonicUs, fault};

/// What goes on once they are cleared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// Nothing: the migration was given up.
    End,
    /// The migration turns back.
    Settle,
    /// The way back begins.
    Begin,
    /// It goes on after a restart of the source, with what this node owns.
    Resume,
}

/// Records that are being cleared.
#[derive(Debug)]
pub(super) struct Cleared {
    clearing: Clearing,
    then: Then,
}

impl Cleared {
    /// What this node does not own.
    pub(super) fn inert(now: MonotonicUs, view: &ImportView, then: Then) -> Cleared {
        let inert = view.owned().rest_of(view.range());
        let is_forgotten = then == Then::Settle && fault!(InertCopySentBack);
        let inert = if is_forgotten { &[] } else { inert.ranges() };
        Cleared { clearing: Clearing::begin(now, inert.iter().copied()), then }
    }

    /// Of a way back: what this node had given before.
    pub(super) fn outdated(now: MonotonicUs, view: &ImportView) -> Option<Cleared> {
        let is_way_back = view.is_by_cuts() && !fault!(StaleGivenSurvivesTurn);
        let share = view.began_with().filter(|_| is_way_back)?;
        let outdated = share.rest_of(view.range());
        let clearing = Clearing::begin(now, outdated.ranges().iter().copied());
        Some(Cleared { clearing, then: Then::Begin })
    }

    /// Clears a slice, if it is due; what goes on if nothing is left. `discarded`: is told how many values
    /// went.
    pub(super) fn slice(
        &mut self,
        now: MonotonicUs,
        store: &Store,
        discarded: &mut dyn FnMut(u64),
    ) -> Option<Then> {
        self.clearing.counted_slice(now, store, discarded).then_some(self.then)
    }

    pub(super) fn deadline(&self) -> MonotonicUs {
        self.clearing.deadline()
    }
}
