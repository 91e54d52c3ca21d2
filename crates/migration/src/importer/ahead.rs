//! What is copied before the freeze, of a range that freezes whole: hot positions (hot_copies), and large
//! collections, piece by piece (collection_copies).
//!
//! The source names both in one frame. When all of them are here, or nothing is named for long, the range may
//! be frozen ([`TargetEvent::CaughtUp`]). Until the activation all of it is inert: nobody is served before it
//! (M3).

use super::collection_copies::CollectionCopies;
use super::hot_copies::HotCopies;
use super::parts::TargetParts;
use super::records::Untaken;
use super::samp_pull::Samples;
use crate::tuning::HOT_COPIES_US;
use crate::{ImportPhase, MigrationSpec, TargetEvent};
use sidle_store::Store;
use sidle_types::{MonotonicUs, Position};
use sidle_wire::{ChangedPullReply, HotHints, Lane, Positions};
use std::collections::BTreeSet;

/// The copies before the freeze: see the module's header.
#[derive(Debug)]
pub(super) struct Ahead {
    hot: Option<HotCopies>,
    collections: Option<CollectionCopies>,
    is_named: bool,
    /// No longer than this the freeze waits for what is hot, or to be named.
    waits_until: MonotonicUs,
    is_caught_up: bool,
}

impl Ahead {
    /// Nothing yet; none for a protocol that names nothing ahead.
    pub(super) fn new(now: MonotonicUs, spec: &MigrationSpec) -> Option<Ahead> {
        let protocol = &spec.protocol;
        protocol.names_ahead().then(|| Ahead {
            hot: protocol.copies_hot_ahead().then(HotCopies::default),
            collections: protocol.copies_collections_ahead().then(CollectionCopies::default),
            is_named: false,
            waits_until: now.plus_us(HOT_COPIES_US),
            is_caught_up: false,
        })
    }

    /// The source names what to copy, for the first time or again.
    pub(super) fn named(
        &mut self,
        parts: &mut TargetParts,
        samples: &mut Samples,
        hints: &HotHints<'_>,
    ) -> Result<(), Untaken> {
        let mut positions = hints.positions.iter().chain(hints.collections.iter());
        if !positions.all(|position| parts.spec.range.contains(position)) {
            return Err(Untaken::Corrupt("a hint of another migration".to_owned()));
        }
        if !self.is_named && parts.phase() == ImportPhase::Copying {
            self.is_named = true;
            if let Some(hot) = &mut self.hot {
                hot.named(samples, hints.positions);
            }
            if let Some(collections) = &mut self.collections {
                collections.named(hints.collections);
            }
        }
        self.look(parts, samples);
        Ok(())
    }

    /// The range may be frozen if everything is here.
    pub(super) fn look(&mut self, parts: &mut TargetParts, samples: &Samples) {
        let is_copied = self.collections.as_ref().is_none_or(CollectionCopies::is_caught_up);
        if self.is_named && samples.is_idle() && is_copied {
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
        if let Some(collections) = &mut self.collections {
            collections.timeout(now);
        }
        if self.waits_until <= now && !self.waits_for_collections() {
            self.caught_up(parts);
        }
    }

    /// What is large takes as long as it takes: the coordinator gives up what makes no progress.
    fn waits_for_collections(&self) -> bool {
        self.is_named && !self.collections.as_ref().is_none_or(CollectionCopies::is_caught_up)
    }

    pub(super) fn deadline(&self) -> Option<MonotonicUs> {
        let waits = !self.is_caught_up && !self.waits_for_collections();
        let collections = self.collections.as_ref().and_then(CollectionCopies::deadline);
        [waits.then_some(self.waits_until), collections].into_iter().flatten().min()
    }

    pub(super) fn reconnected(&mut self) {
        self.collections.iter_mut().for_each(CollectionCopies::reconnected);
    }

    pub(super) fn transmit(&mut self, parts: &mut TargetParts, now: MonotonicUs, out: &mut Vec<u8>) -> bool {
        self.collections.as_mut().is_some_and(|collections| collections.transmit(parts, now, out))
    }

    /// A reply to a pull of a collection's piece.
    pub(super) fn pulled(
        &mut self,
        parts: &mut TargetParts,
        now: MonotonicUs,
        store: &Store,
        lane: Lane,
        reply: &ChangedPullReply<'_>,
    ) -> Result<(), Untaken> {
        match &mut self.collections {
            Some(collections) => collections.pulled(parts, now, store, lane, reply),
            None => Ok(()),
        }
    }

    /// The source is frozen, and these hot positions have not changed. The other hot copies are thrown away,
    /// and their positions returned; copies of collections are outdated until they are patched. Nobody is
    /// served meanwhile.
    pub(super) fn end(
        self,
        parts: &mut TargetParts,
        store: &Store,
        unchanged: Option<Positions<'_>>,
    ) -> BTreeSet<Position> {
        assert_eq!(parts.phase(), ImportPhase::Copying, "M30: outdated copies go before anybody is served");
        parts.copies.outdate();
        self.hot.map_or_else(BTreeSet::new, |hot| hot.keep(parts, store, unchanged))
    }
}
