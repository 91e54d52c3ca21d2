//! What has to wait until every worker uses a published range table.

use crate::mover::Table;
use sidle_migration::{BarrierPassed, BarrierTicket};
use sidle_types::{MapEpoch, MigrationId, PositionRange};
use std::collections::VecDeque;

/// What happens once every worker has passed a table.
#[derive(Debug)]
pub(super) enum Then {
    /// The agent hears that every worker uses the map of this epoch.
    TellAgent(MapEpoch),
    /// The migration's mover goes on (C1, C2, C3, C5).
    Mover(MigrationId, Table),
    /// What the store holds in the range is nobody's, where that is still so (C2, C7).
    Discard(PositionRange),
    /// Tombstones in the range are of no use any more (C3).
    Sweep(PositionRange),
}

/// A table that not every worker may have passed yet.
#[derive(Debug)]
struct Awaited {
    ticket: BarrierTicket,
    then: VecDeque<Then>,
}

/// Tables that something waits for, in the order in which they were published.
#[derive(Debug, Default)]
pub(super) struct Barriers(VecDeque<Awaited>);

impl Barriers {
    /// Keeps in mind what is to be done behind a table's barrier. Tables are passed in order, so that one
    /// that nothing waits for need not be remembered.
    pub(super) fn add(&mut self, ticket: BarrierTicket, then: Vec<Then>) {
        if !then.is_empty() {
            self.0.push_back(Awaited { ticket, then: then.into() });
        }
    }

    /// The next thing to be done, if every worker has passed its table, with the proof of that: each takes
    /// one of its own.
    pub(super) fn next(&mut self) -> Option<(Then, BarrierPassed)> {
        let Awaited { ticket, then } = self.0.front_mut()?;
        let proof = ticket.passed()?;
        let step = then.pop_front().expect("a table is remembered for what is left to do");
        if then.is_empty() {
            self.0.pop_front();
        }
        Some((step, proof))
    }

    /// Whether something in the range is to be cleared once a barrier has passed.
    pub(super) fn clear_in(&self, range: PositionRange) -> bool {
        let clears = |step: &Then| match step {
            Then::Discard(cleared) | Then::Sweep(cleared) => cleared.overlaps(range),
            // Their ranges are kept until the mover is done.
            Then::TellAgent(_) | Then::Mover(..) => false,
        };
        self.0.iter().any(|awaited| awaited.then.iter().any(clears))
    }

    /// How many tables something waits for.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
