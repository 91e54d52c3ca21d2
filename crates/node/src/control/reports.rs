//! Maps that every worker uses, and of which the coordinator is to learn.
//!
//! By some maps a node notes in its durable log what the next step of the coordinator rests on. Such a map is
//! reported when the notes are synced (C12).

use super::unsynced::SYNC_POLL_US;
use sidle_types::{CommitNumber, MapEpoch, MonotonicUs};

/// The last map to be reported, and what for.
#[derive(Debug, Default)]
pub(super) struct Reports {
    /// The last commit with a note.
    noted: CommitNumber,
    epoch: Option<MapEpoch>,
}

impl Reports {
    /// What is reported from now on waits for this commit.
    pub(super) fn wait_for(&mut self, noted: CommitNumber) {
        self.noted = self.noted.max(noted);
    }

    /// Every worker uses the map of this epoch, which is later than those before.
    pub(super) fn add(&mut self, epoch: MapEpoch) {
        self.epoch = Some(epoch);
    }

    /// What may be reported: now that everything up to this commit is synced.
    pub(super) fn take_synced(&mut self, synced: CommitNumber) -> Option<MapEpoch> {
        self.epoch.take_if(|_| self.noted <= synced)
    }

    /// How many maps wait.
    pub(super) fn len(&self) -> usize {
        usize::from(self.epoch.is_some())
    }

    /// When to look again.
    pub(super) fn deadline(&self, now: MonotonicUs) -> Option<MonotonicUs> {
        self.epoch.map(|_| now.plus_us(SYNC_POLL_US))
    }
}
