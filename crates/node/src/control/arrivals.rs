//! Imports that have all their records, some of which the durable log may not have synced yet.
//!
//! The report that all has arrived lets the source forget its copy. Until then a crash of this node costs
//! nothing that the source has (C10).

use sidle_store::Commits;
use sidle_types::{CommitNumber, MigrationId, MonotonicUs, PositionRange, fault};
use std::collections::BTreeMap;

/// How often it is checked what is synced.
const SYNC_POLL_US: u64 = 5_000;

/// By import: the last commit that changes its range.
#[derive(Debug, Default)]
pub(super) struct Arrivals(BTreeMap<MigrationId, CommitNumber>);

impl Arrivals {
    /// Everything of this range has arrived; the last commit that changes it.
    pub(super) fn add(
        &mut self,
        id: MigrationId,
        range: PositionRange,
        commits: Option<&Commits>,
    ) -> CommitNumber {
        let commits = commits.filter(|_| !fault!(FinishedBeforeSynced));
        let last = commits.map_or(CommitNumber::default(), |commits| commits.latest_in(range));
        *self.0.entry(id).or_insert(last)
    }

    /// The imports whose records are all synced: now that everything up to this commit is.
    pub(super) fn take_synced(&mut self, synced: CommitNumber) -> Vec<MigrationId> {
        self.0.extract_if(.., |_, last| *last <= synced).map(|(id, _)| id).collect()
    }

    /// When to look again.
    pub(super) fn deadline(&self, now: MonotonicUs) -> Option<MonotonicUs> {
        (!self.0.is_empty()).then(|| now.plus_us(SYNC_POLL_US))
    }
}
