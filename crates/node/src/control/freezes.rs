//! Ranges that are frozen here, some of whose changes no commit of the durable log has yet.
//!
//! The mover learns of the freeze when the log is safe up to there. Until then the target is not activated,
//! nobody reads the frozen copy, and nothing is pulled. Otherwise the target would show, and acknowledge on
//! top of it, what this node has not after a restart (C11).

use crate::mover::Table;
use sidle_migration::BarrierPassed;
use sidle_store::Commits;
use sidle_types::{CommitNumber, MigrationId, PositionRange, fault};
use std::collections::BTreeMap;

/// The steps of one migration's mover that wait for a commit, in order.
#[derive(Debug)]
struct Held {
    last: CommitNumber,
    steps: Vec<(Table, BarrierPassed)>,
}

/// By migration.
#[derive(Debug, Default)]
pub(super) struct Freezes(BTreeMap<MigrationId, Held>);

impl Freezes {
    /// No worker changes the range any more: this step waits for the last commit that changes it.
    pub(super) fn add(
        &mut self,
        id: MigrationId,
        range: PositionRange,
        commits: &Commits,
        step: (Table, BarrierPassed),
    ) {
        let last = if fault!(ActivatedBeforeSafe) { CommitNumber(0) } else { commits.latest_in(range) };
        self.0.entry(id).or_insert(Held { last, steps: Vec::new() }).steps.push(step);
    }

    /// Keeps a later step of a migration that waits; hands it back if that does not.
    pub(super) fn behind(
        &mut self,
        id: MigrationId,
        step: (Table, BarrierPassed),
    ) -> Option<(Table, BarrierPassed)> {
        match self.0.get_mut(&id) {
            Some(held) => {
                held.steps.push(step);
                None
            }
            None => Some(step),
        }
    }

    /// The steps that may be taken: now that everything up to this commit is safe.
    pub(super) fn take_safe(&mut self, safe: CommitNumber) -> Vec<(MigrationId, Table, BarrierPassed)> {
        let passed = self.0.extract_if(.., |_, held| held.last <= safe);
        let of_each = |(id, held): (MigrationId, Held)| {
            held.steps.into_iter().map(move |(table, proof)| (id, table, proof))
        };
        passed.flat_map(of_each).collect()
    }

    /// How many migrations wait.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
