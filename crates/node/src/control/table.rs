//! Steps that wait until every worker uses a published range table.

use crate::mover::Table;
use sidle_migration::{BarrierPassed, BarrierTicket};
use sidle_types::{MapEpoch, MigrationId, PositionRange};
use std::collections::VecDeque;

/// A step to run once every worker has passed a table.
#[derive(Debug)]
pub(super) enum Then {
    /// Notify the agent that every worker uses the map of this epoch.
    NotifyAgent(MapEpoch),
    /// The migration's mover continues (C1, C2, C3, C5).
    Mover(MigrationId, Table),
    /// Discard the store's records in the range, if still nobody's (C2, C7).
    Discard(PositionRange),
    /// Tombstones in the range are no longer needed (C3).
    Sweep(PositionRange),
}

/// A table that not every worker has passed yet.
#[derive(Debug)]
struct Awaited {
    ticket: BarrierTicket,
    then: VecDeque<Then>,
}

/// Tables with pending steps, in the order of publication.
#[derive(Debug, Default)]
pub(super) struct Barriers(VecDeque<Awaited>);

impl Barriers {
    /// Keeps the steps behind a table's barrier. Tables are passed in order, so one without steps is not
    /// kept.
    pub(super) fn add(&mut self, ticket: BarrierTicket, then: Vec<Then>) {
        if !then.is_empty() {
            self.0.push_back(Awaited { ticket, then: then.into() });
        }
    }

    /// The next step, if every worker has passed its table, with the proof of that: each takes its own.
    pub(super) fn next(&mut self) -> Option<(Then, BarrierPassed)> {
        let Awaited { ticket, then } = self.0.front_mut()?;
        let proof = ticket.passed()?;
        let step = then.pop_front().expect("a table is remembered for what is left to do");
        if then.is_empty() {
            self.0.pop_front();
        }
        Some((step, proof))
    }

    /// Forgets the steps of a mover that begins anew.
    pub(super) fn forget(&mut self, id: MigrationId) {
        for awaited in &mut self.0 {
            awaited.then.retain(|step| !matches!(step, Then::Mover(of, _) if *of == id));
        }
        self.0.retain(|awaited| !awaited.then.is_empty());
    }

    /// Whether part of the range is to be cleared once a barrier has passed.
    pub(super) fn clear_in(&self, range: PositionRange) -> bool {
        let clears = |step: &Then| match step {
            Then::Discard(cleared) | Then::Sweep(cleared) => cleared.overlaps(range),
            // Their ranges are kept until the mover ends.
            Then::NotifyAgent(_) | Then::Mover(..) => false,
        };
        self.0.iter().any(|awaited| awaited.then.iter().any(clears))
    }

    /// How many tables something waits for.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
