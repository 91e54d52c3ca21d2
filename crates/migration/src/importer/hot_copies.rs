//! Hot positions that are copied before the freeze, of a range that freezes whole.
//!
//! The source names them when every worker marks its changes there (M28), and they are pulled as samples are.
//!
//! Until the activation they are inert. `Activate` names the positions that have not changed since. Copies at
//! others are thrown away before the first command runs, and pulled anew out of turn (M30). The others are
//! here from the first moment.

use super::parts::TargetParts;
use super::samp_pull::Samples;
use sidle_store::Store;
use sidle_types::{Position, fault};
use sidle_wire::Positions;
use std::collections::BTreeSet;

/// The copies of hot positions: see the module's header.
#[derive(Debug, Default)]
pub(super) struct HotCopies {
    /// Where copies may be.
    named: BTreeSet<Position>,
}

impl HotCopies {
    /// The source names them.
    pub(super) fn named(&mut self, samples: &mut Samples, positions: Positions<'_>) {
        self.named = positions.iter().collect();
        samples.offer_hot(positions.iter());
    }

    /// The source is frozen, and these positions have not changed. Throws the other copies away; where there
    /// may have been some.
    pub(super) fn keep(
        self,
        parts: &mut TargetParts,
        store: &Store,
        unchanged: Option<Positions<'_>>,
    ) -> BTreeSet<Position> {
        let unchanged: BTreeSet<Position> = unchanged.into_iter().flat_map(Positions::iter).collect();
        let mut outdated = self.named;
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
