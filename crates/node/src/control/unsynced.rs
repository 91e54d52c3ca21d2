//! What the coordinator learns of imports only when the durable log is synced (C10).
//!
//! The report that all has arrived lets the source forget its copy. The report that nothing is in transit
//! lets it forget what it gave, since the way back begins then. Until then a crash of this node costs nothing
//! that the source has.

use crate::mover::MoverReport;
use sidle_cluster::Settled;
use sidle_store::Commits;
use sidle_types::{CommitNumber, MigrationId, MonotonicUs, PositionRange, fault};
use std::collections::BTreeMap;

/// How often it is checked what is synced.
pub(super) const SYNC_POLL_US: u64 = 1_000;

/// What is to be reported of an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// Everything is here.
    AllIsHere,
    /// It is to turn back, and nothing is in transit.
    Settled(Settled),
}

impl News {
    /// What a mover's report is news of, if it is to be reported.
    pub(super) fn of(report: &MoverReport) -> Option<News> {
        match report {
            MoverReport::Finished(_) => Some(News::AllIsHere),
            MoverReport::Settled { owns: true, .. } => Some(News::Settled(Settled::OwnsSome)),
            MoverReport::Settled { owns: false, .. } => Some(News::Settled(Settled::OwnsNothing)),
            _ => None,
        }
    }
}

/// By import: the last commit that changes its range.
#[derive(Debug, Default)]
pub(super) struct Unsynced(BTreeMap<MigrationId, (CommitNumber, News)>);

impl Unsynced {
    /// There is news of an import of this range. Returns the last commit that changes it.
    pub(super) fn add(
        &mut self,
        (id, range): (MigrationId, PositionRange),
        news: News,
        commits: Option<&Commits>,
    ) -> CommitNumber {
        let is_at_once = match news {
            News::AllIsHere => fault!(FinishedBeforeSynced),
            News::Settled(_) => fault!(SettledBeforeSynced),
        };
        let commits = commits.filter(|_| !is_at_once);
        let last = commits.map_or(CommitNumber::default(), |commits| commits.latest_in(range));
        self.0.insert(id, (last, news));
        last
    }

    /// The import's source has restarted: something is in transit again.
    pub(super) fn forget_settled(&mut self, id: MigrationId) {
        self.0.retain(|of, (_, news)| *of != id || *news == News::AllIsHere);
    }

    /// The news of which all is synced: now that everything up to this commit is.
    pub(super) fn take_synced(&mut self, synced: CommitNumber) -> Vec<(MigrationId, News)> {
        self.0.extract_if(.., |_, (last, _)| *last <= synced).map(|(id, (_, news))| (id, news)).collect()
    }

    /// When to look again.
    pub(super) fn deadline(&self, now: MonotonicUs) -> Option<MonotonicUs> {
        (!self.0.is_empty()).then(|| now.plus_us(SYNC_POLL_US))
    }
}
