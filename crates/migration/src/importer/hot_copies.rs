//! Hot positions that are copied before the freeze, of a range that freezes whole.
//!
//! The source names them when every worker marks its changes there (M28), and they are pulled as samples are.
//! When all are here, or none came for long, the range may be frozen ([`TargetEvent::CaughtUp`]).
//!
//! Until the activation they are inert: nobody is served before it (M3). `Activate` names the positions that
//! have not changed since. Copies at others are thrown away before the first command runs, and pulled anew
//! out of turn (M30). The others are here from the first moment.

use super::parts::TargetParts;
use super::records::Untaken;
use super::samp_pull::Samples;
use crate::tuning::HOT_COPIES_US;
use crate::{ImportPhase, MigrationSpec, TargetEvent};
use sidle_store::Store;
use sidle_types::{MonotonicUs, Position, fault};
use sidle_wire::{HotHints, Positions};
use std::collections::BTreeSet;

/// The copies of hot positions: see the module's header.
#[derive(Debug)]
pub(super) struct HotCopies {
    /// Where copies may be.
    named: Option<BTreeSet<Position>>,
    /// No longer than this the freeze waits for them.
    waits_until: MonotonicUs,
    is_caught_up: bool,
}

impl HotCopies {
    /// None yet; nothing at all for a protocol that copies none ahead.
    pub(super) fn new(now: MonotonicUs, spec: &MigrationSpec) -> Option<HotCopies> {
        let waits_until = now.plus_us(HOT_COPIES_US);
        let copies = HotCopies { named: None, waits_until, is_caught_up: false };
        spec.protocol.copies_hot_ahead().then_some(copies)
    }

    /// The source names them, for the first time or again.
    pub(super) fn named(
        &mut self,
        parts: &mut TargetParts,
        samples: &mut Samples,
        hints: &HotHints<'_>,
    ) -> Result<(), Untaken> {
        if !hints.positions.iter().all(|position| parts.spec.range.contains(position)) {
            return Err(Untaken::Corrupt("a hint of another migration".to_owned()));
        }
        if self.named.is_none() && parts.phase() == ImportPhase::Copying {
            self.named = Some(hints.positions.iter().collect());
            samples.offer_hot(hints.positions.iter());
        }
        self.look(parts, samples);
        Ok(())
    }

    /// The range may be frozen if all of them are here.
    pub(super) fn look(&mut self, parts: &mut TargetParts, samples: &Samples) {
        if self.named.is_some() && samples.is_idle() {
            self.caught_up(parts);
        }
    }

    fn caught_up(&mut self, parts: &mut TargetParts) {
        if !self.is_caught_up {
            self.is_caught_up = true;
            parts.events.push_back(TargetEvent::CaughtUp);
        }
    }

    pub(super) fn timeout(&mut self, parts: &mut TargetParts, now: MonotonicUs) {
        if self.waits_until <= now {
            self.caught_up(parts);
        }
    }

    pub(super) fn deadline(&self) -> Option<MonotonicUs> {
        (!self.is_caught_up).then_some(self.waits_until)
    }

    /// The source is frozen, and these positions have not changed. Throws the other copies away; where there
    /// may have been some. Nobody is served meanwhile.
    pub(super) fn keep(
        self,
        parts: &mut TargetParts,
        store: &Store,
        unchanged: Option<Positions<'_>>,
    ) -> BTreeSet<Position> {
        assert_eq!(parts.phase(), ImportPhase::Copying, "M30: outdated copies go before anybody is served");
        let unchanged: BTreeSet<Position> = unchanged.into_iter().flat_map(Positions::iter).collect();
        let mut outdated = self.named.unwrap_or_default();
        outdated.retain(|position| !unchanged.contains(position));
        for &position in outdated.iter().filter(|_| !fault!(HotCopyKeptThoughMarked)) {
            let rest = store.discard(position, position, usize::MAX);
            assert_eq!(rest, None, "without a budget everything is discarded");
        }
        let kept = store.len_in(parts.spec.range);
        parts.writer.met(kept);
        parts.counters.records_moved += kept;
        parts.counters.hinted += kept;
        outdated
    }
}
